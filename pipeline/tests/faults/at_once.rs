//! Eight commands at once on one cache and one folder of runs, each in a pid namespace of its own
//! where the machine allows it, as in containers that share a volume: no wrong row, no lost run, no
//! failure that is not explained.
//!
//! `MILLSTREAM_TEST_ROUNDS` says how often; the suite does it twice.

use crate::{
    ending, litter,
    results::{self, Results},
    subjects::{PREDICT, RESUME},
    work_folder::{self, HANGS, Ran, WorkFolder},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const IN_THE_SUITE: u64 = 2;

/// A work folder with a cached panel, a run that was interrupted and a run that is complete.
struct Crowd {
    work: WorkFolder,
    interrupted: PathBuf,
    trained: PathBuf,
    /// Of any run that is complete; without forecasts.
    run: Results,
    forecasts: Results,
    cache: Results,
    /// What starts a command in a pid namespace of its own; empty where that is not allowed.
    apart: &'static [&'static str],
}

impl Crowd {
    fn new() -> Result<Self, String> {
        let work = WorkFolder::new();
        work.keep();
        (PREDICT.undisturbed)(&work)?;
        let made = work.run_dir()?;
        let forecasts = results::of_run(&made);
        let mut run = forecasts.clone();
        run.remove("predictions.parquet").expect("there are forecasts");
        let cache = results::of_cache(&work.cache());
        // Beside it, a second run, which is made where there was none.
        let aside = work.inside().with_file_name("trained");
        std::fs::rename(&made, &aside).unwrap();
        (RESUME.prepare)(&work)?;
        let interrupted = work.run_dir()?;
        // Both may have been started within a second, and would have the same name.
        let trained = interrupted.with_file_name("2000-01-01_00-00-00");
        std::fs::rename(&aside, &trained).unwrap();
        std::fs::remove_file(trained.join("predictions.parquet")).unwrap();
        work.keep();
        let apart = apart();
        Ok(Crowd { work, interrupted, trained, run, forecasts, cache, apart })
    }

    /// The commands of a round, in an order drawn for it. Without a cache, all read the source.
    fn commands(&self, round: u64) -> Vec<Vec<&str>> {
        let (interrupted, trained) =
            (self.interrupted.to_str().unwrap(), self.trained.to_str().unwrap());
        let check: &[&str] = if is_cached(round) { &["import", "--verify"] } else { &["import"] };
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["import"],
            vec!["import"],
            check.to_vec(),
            vec!["train"],
            vec!["train", "--refresh"],
            vec!["predict", "--run", trained],
            vec!["train", "--resume", interrupted],
            vec!["train", "--resume", interrupted],
        ];
        let mut random = ChaCha8Rng::seed_from_u64(round);
        for last in (1..commands.len()).rev() {
            commands.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        commands
    }

    fn round(&self, round: u64) -> Result<(), String> {
        self.work.put_back();
        if !is_cached(round) {
            std::fs::remove_dir_all(self.work.cache()).unwrap();
        }
        let children: Vec<_> = self
            .commands(round)
            .into_iter()
            .map(|args| (args.join(" "), work_folder::spawn(&mut self.command(&args))))
            .collect();
        let ran: Result<Vec<Ran>, String> = children
            .into_iter()
            .map(|(args, child)| work_folder::wait(&args, child, HANGS))
            .collect();
        let mut wrong = self.wrong(&ran?);
        // A replaced panel stays for those who use it; whoever comes next removes it.
        self.work.succeed(&["import"])?;
        wrong.extend(litter::find(&self.work));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let command = self.work.command(args);
        let Some((program, flags)) = self.apart.split_first() else { return command };
        let mut outer = Command::new(program);
        outer.args(flags).arg(command.get_program()).args(command.get_args());
        outer.current_dir(self.work.inside());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        outer
    }

    /// What is not as it should be when all have ended.
    fn wrong(&self, ran: &[Ran]) -> Vec<String> {
        let mut wrong: Vec<String> = ran.iter().filter_map(unexplained).collect();
        let resumed = ran.iter().filter(|ran| ran.args.contains("--resume"));
        if !resumed.clone().any(|ran| ran.code == Some(0)) {
            wrong.push("nobody resumed the run".to_owned());
        }
        let new = |ran: &&Ran| ran.args.starts_with("train") && !ran.args.contains("--resume");
        let trained = ran.iter().filter(new).filter(|ran| ran.code == Some(0)).count();
        let runs = self.work.runs();
        if runs.len() != trained + 2 {
            wrong.push(format!("{} runs of {trained} new and 2 old ones: {runs:?}", runs.len()));
        }
        for run in &runs {
            let expected = if *run == self.trained { &self.forecasts } else { &self.run };
            let differences = results::differences(expected, &results::of_run(run));
            wrong.extend(differences.iter().map(|what| format!("{}: {what}", run.display())));
        }
        wrong.extend(results::differences(&self.cache, &results::of_cache(&self.work.cache())));
        wrong
    }
}

/// Every other round begins without a cached panel.
fn is_cached(round: u64) -> bool {
    round.is_multiple_of(2)
}

/// A command that failed, unless it says that another had the run it wanted.
fn unexplained(ran: &Ran) -> Option<String> {
    let explained = match (ran.code, ending::errors(ran).as_deref()) {
        (Some(0), Ok([])) => true,
        (Some(2), Ok([line])) => {
            let taken = line.contains("is in use by") || line.contains("has finished");
            ran.args.contains("--resume") && taken
        }
        _ => false,
    };
    (!explained).then(|| format!("unexplained: {ran}"))
}

/// How to start a command that sees no process but its own.
fn apart() -> &'static [&'static str] {
    const AS_ROOT: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--"];
    const AS_USER: &[&str] =
        &["unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child", "--"];
    let works = |flags: &[&str]| {
        let output =
            Command::new(flags[0]).args(&flags[1..]).args(["sh", "-c", "echo $$"]).output();
        output.is_ok_and(|output| output.stdout == b"1\n")
    };
    match [AS_ROOT, AS_USER].into_iter().find(|flags| works(flags)) {
        Some(flags) => flags,
        None => {
            eprintln!(
                "NOT IN PID NAMESPACES: unshare is missing or refused; processes see each other"
            );
            &[]
        }
    }
}

#[test]
fn eight_at_once_lose_nothing() {
    let rounds = match std::env::var("MILLSTREAM_TEST_ROUNDS") {
        Err(_) => IN_THE_SUITE,
        Ok(text) => text.parse().expect("MILLSTREAM_TEST_ROUNDS is a number"),
    };
    let crowd = Crowd::new().unwrap();
    let mut found = Vec::new();
    for round in 0..rounds {
        match crowd.round(round) {
            Ok(()) => println!("round {round}: all is well"),
            Err(why) => {
                println!("round {round}: FAILED {why}");
                found.push(format!("round {round}: {why}"));
            }
        }
    }
    println!("TRIED {rounds} rounds of 8 at once: {} found", found.len());
    assert!(found.is_empty(), "{} of {rounds}\n{}", found.len(), found.join("\n\n"));
}

#[test]
fn what_eight_at_once_could_lose_is_found() {
    let crowd = Crowd::new().unwrap();
    crowd.work.put_back();
    let run = |args: &[&str]| crowd.work.succeed(args).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (trained, interrupted) = (text(&crowd.trained), text(&crowd.interrupted));
    let mut ran = vec![
        run(&["train"]),
        run(&["predict", "--run", &trained]),
        run(&["train", "--resume", &interrupted]),
    ];
    assert_eq!(crowd.wrong(&ran), [""; 0]);

    let check = |ran: &[Ran], expected: &str| {
        let wrong = crowd.wrong(ran).join("\n");
        assert!(wrong.contains(expected), "{wrong:?} does not say {expected:?}");
    };
    check(&ran[..2], "nobody resumed the run");
    check(&ran[1..], "3 runs of 0 new and 2 old ones");
    let weights = crowd.interrupted.join("checkpoints/last/model.safetensors");
    let bytes = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &bytes[1..]).unwrap();
    check(&ran, "last/model.safetensors differs");
    std::fs::write(&weights, bytes).unwrap();
    ran[0].code = Some(3);
    "error: run `millstream import` first\n".clone_into(&mut ran[0].stderr);
    check(&ran, "unexplained: train: exit code 3");
    ran[2].code = Some(2);
    "error: runs/a is in use by millstream train (process 1)\n".clone_into(&mut ran[2].stderr);
    assert_eq!(unexplained(&ran[2]), None);
    (ran[2].code, ran[2].signal) = (None, Some(11));
    check(&ran, "unexplained: train --resume");
}
