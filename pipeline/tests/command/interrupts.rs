//! Two Ctrl-C at random moments: the process ends by the documented code, never by a crash, and what
//! it leaves can be gone on with or is not there.
//!
//! The suite tries a few; `MILLSTREAM_TEST_INTERRUPTS=200` as many.

use crate::{
    bench::{Bench, SMALL},
    running::{Running, epochs},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{fs::File, os::unix::process::ExitStatusExt, process::Stdio, thread, time::Duration};

const IN_THE_SUITE: u64 = 10;

fn rounds() -> u64 {
    let text = std::env::var("MILLSTREAM_TEST_INTERRUPTS");
    text.map_or(IN_THE_SUITE, |text| text.parse().unwrap())
}

/// Checks what a process that was told twice left behind; what is wrong with it, if anything.
fn left_behind(bench: &Bench) -> Result<(), String> {
    for run in bench.runs() {
        let name = run.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with('.') {
            return Err(format!("{name} was left behind"));
        }
        let said = bench.path("resumed");
        let mut command = bench.command(&["train", "--resume", run.to_str().unwrap()]);
        command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
        let running = Running::start(command);
        let read = || std::fs::read_to_string(&said).unwrap();
        running
            .wait_for(|| read().lines().any(|l| l.starts_with("epoch ") || l.starts_with("error")));
        running.signal(libc::SIGINT);
        let code = running.end().code();
        if code != Some(5) {
            return Err(format!("{name} does not go on: {code:?} {}", read()));
        }
        std::fs::remove_dir_all(run).unwrap();
    }
    Ok(())
}

#[test]
fn two_signals_at_any_moment_end_it_by_the_documented_code() {
    let bench = Bench::new(SMALL);
    bench.json(&["import", "--json"]);
    let mut failures = Vec::new();
    for round in 0..rounds() {
        let mut random = ChaCha8Rng::seed_from_u64(round);
        let mut pause = |most: u64| {
            // A random moment is the subject: there is no event to wait for.
            thread::sleep(Duration::from_micros(random.next_u64() % (most * 1000)));
        };
        let mut command = bench.command(&["train", "--set", &epochs()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running::start(command);
        // One half while it starts, one half while it trains.
        if round % 2 == 0 {
            running.wait_for(|| running.has_thread("signals"));
            pause(300);
        } else {
            running.wait_for(|| bench.journal() > 0);
            pause(500);
        }
        running.signal(libc::SIGINT);
        pause(20);
        running.signal(libc::SIGINT);
        let status = running.end();
        let crashed = status.code() != Some(5) && status.signal() != Some(libc::SIGINT);
        if crashed {
            failures.push(format!("round {round}: {status}"));
        }
        if let Err(why) = left_behind(&bench) {
            failures.push(format!("round {round}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
