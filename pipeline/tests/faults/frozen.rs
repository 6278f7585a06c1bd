//! Ctrl-C while the PostgreSQL server says nothing: the command ends, by the documented code.
//!
//! The server is silent in three ways: it stops somewhere in the conversation, drawn for each; its
//! processes are stopped (SIGSTOP) while we wait for a lock; and it accepts and never answers.
//! `MILLSTREAM_TEST_FROZEN` says how often. In the suite nothing is timed, beyond that a command which
//! has not ended after ten seconds hangs; with the variable, a second is the limit, and the times are
//! printed.

use crate::{
    ending,
    halting::Halting,
    support::server::{Options, Server},
    work_folder::{self, Ran, WorkFolder},
};
use postgres::{Client, NoTls};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const IN_THE_SUITE: u64 = 4;
const HANGS: Duration = Duration::from_secs(10);
const AT_MOST: Duration = Duration::from_secs(1);
const INTERRUPTED: i32 = 5;
const SEED: u64 = 14;

/// A server with a table, and a work folder whose settings lead to it.
struct Frozen {
    server: Server,
    work: WorkFolder,
    /// What an import that is not disturbed gets from the server.
    bytes: usize,
}

impl Frozen {
    fn new() -> Self {
        let server = Server::with(&Options::default());
        let mut client = Client::connect(server.url(), NoTls).unwrap();
        client.batch_execute(TABLE).unwrap();
        let work = WorkFolder::new();
        // A path of a CSV would be a setting without effect.
        fs::write(work.inside().join("pipeline.toml"), SETTINGS).unwrap();
        work.keep();
        let this = Frozen { server, work, bytes: 0 };
        let through = Halting::after(usize::MAX, &this.socket());
        let args = this.args("import", &through.url());
        this.work.succeed(&strs(&args)).unwrap();
        this.work.put_back();
        Frozen { bytes: through.carried(), ..this }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.server.socket().expect("a server of our own")
    }

    fn args(&self, command: &str, url: &str) -> Vec<String> {
        let set = [
            "source.kind=postgres".to_owned(),
            format!("source.url={url}"),
            "source.table=prices".to_owned(),
        ];
        let set = set.into_iter().flat_map(|setting| ["--set".to_owned(), setting]);
        std::iter::once(command.to_owned()).chain(set).collect()
    }

    /// The command is started, the server falls silent, and then comes the Ctrl-C; how long it takes.
    fn interrupt(&self, way: &Way) -> Result<Duration, String> {
        self.work.put_back();
        match way {
            Way::Stops { command, after } => {
                let proxy = Halting::after(*after, &self.socket());
                let args = self.args(command, &proxy.url());
                let child = work_folder::spawn(&mut self.work.command(&strs(&args)));
                let halted = proxy.wait(HANGS);
                self.end(command, child, halted)
            }
            Way::Frozen { command } => {
                let mut client = Client::connect(self.server.url(), NoTls).unwrap();
                let mut lock = client.transaction().unwrap();
                lock.batch_execute("LOCK TABLE prices IN ACCESS EXCLUSIVE MODE").unwrap();
                let args = self.args(command, self.server.url());
                let child = work_folder::spawn(&mut self.work.command(&strs(&args)));
                let mut watcher = Client::connect(self.server.url(), NoTls).unwrap();
                let waits = until(HANGS, || {
                    let row = watcher.query_one(WAITING, &[]).unwrap();
                    row.get::<_, i64>(0) > 0
                });
                let stopped = Stopped::all_of(&self.socket());
                let ended = self.end(command, child, waits);
                drop(stopped);
                ended
            }
        }
    }

    fn end(
        &self,
        command: &str,
        child: std::process::Child,
        silent: Result<(), String>,
    ) -> Result<Duration, String> {
        let id = child.id().to_string();
        let begun = Instant::now();
        signal("INT", &id);
        let ran = work_folder::wait(command, child, HANGS)?;
        let took = begun.elapsed();
        silent.map_err(|why| format!("{why}: {ran}"))?;
        check(&ran).map(|()| took)
    }
}

/// How a server falls silent.
#[derive(Debug)]
enum Way {
    /// After so many bytes of the server.
    Stops { command: &'static str, after: usize },
    /// All its processes are stopped while the command waits for a lock.
    Frozen { command: &'static str },
}

impl Way {
    fn draw(number: u64, bytes: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(SEED + number);
        let command = if number.is_multiple_of(2) { "import" } else { "train" };
        match number % 4 {
            0 => Way::Stops { command, after: 0 },
            1 => Way::Frozen { command },
            _ => Way::Stops { command, after: (random.next_u64() % bytes as u64) as usize },
        }
    }
}

/// A server that does nothing until this is dropped.
struct Stopped {
    processes: Vec<String>,
}

impl Stopped {
    /// Stops the server at a socket: the one that listens, then those it has started.
    fn all_of(socket: &Path) -> Self {
        let file = socket.with_file_name("data").join("postmaster.pid");
        let listens = fs::read_to_string(file).unwrap().lines().next().unwrap().to_owned();
        signal("STOP", &listens);
        let children = Command::new("pgrep").args(["-P", &listens]).output().unwrap();
        let children = String::from_utf8(children.stdout).unwrap();
        let mut processes: Vec<String> = children.lines().map(str::to_owned).collect();
        assert!(!processes.is_empty(), "a server has more than one process");
        processes.iter().for_each(|process| signal("STOP", process));
        processes.push(listens);
        Stopped { processes }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.processes.iter().for_each(|process| signal("CONT", process));
    }
}

fn signal(name: &str, process: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), process]).status().unwrap();
    assert!(sent.success(), "cannot send SIG{name} to {process}");
}

/// Asks until it is so; there is no event for what another process waits for.
fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > limit {
            return Err("it never waited for the lock".to_owned());
        }
        thread::yield_now();
    }
    Ok(())
}

fn check(ran: &Ran) -> Result<(), String> {
    let errors = ending::errors(ran)?;
    match ran.code {
        Some(INTERRUPTED) if errors.len() <= 1 => Ok(()),
        _ => Err(format!("not interrupted: {ran}")),
    }
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

const TABLE: &str = "CREATE TABLE prices AS
    SELECT 's' || s AS symbol, date '2020-01-01' + t AS trade_date,
           (100 + s + sin(t))::float8 AS close, cos(t + s)::float8 AS f1
    FROM generate_series(1, 20) AS s, generate_series(1, 500) AS t";

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'millstream' AND wait_event_type = 'Lock'";

const SETTINGS: &str = r#"
[target]
columns = ["close"]
[window]
lookback = 5
[train]
batch_size = 64
[train.model_options]
hidden = 4
[run]
threads = 1
"#;

#[test]
fn a_silent_server_keeps_nobody_from_stopping() {
    let wanted = std::env::var("MILLSTREAM_TEST_FROZEN").ok();
    let count = match &wanted {
        None => IN_THE_SUITE,
        Some(text) => text.parse().expect("MILLSTREAM_TEST_FROZEN is a number"),
    };
    let frozen = Frozen::new();
    let (mut times, mut found) = (Vec::new(), Vec::new());
    for number in 0..count {
        let way = Way::draw(number, frozen.bytes);
        let outcome = match frozen.interrupt(&way) {
            Ok(took) if wanted.is_some() && took > AT_MOST => {
                times.push(took);
                Err(format!("took {} ms", took.as_millis()))
            }
            Ok(took) => {
                times.push(took);
                Ok(took)
            }
            Err(why) => Err(why),
        };
        match outcome {
            Ok(took) => println!("{number} {way:?}: {} ms", took.as_millis()),
            Err(why) => {
                println!("{number} {way:?}: FAILED {why}");
                found.push(format!("{number} {way:?}: {why}"));
            }
        }
    }
    times.sort();
    if let [shortest, .., longest] = &times[..] {
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_millis();
        let (shortest, longest) = (shortest.as_millis(), longest.as_millis());
        let (half, most) = (at(0.5), at(0.95));
        println!("TIMES {shortest} to {longest} ms, median {half}, 95 % within {most}");
    }
    println!("TRIED {count} Ctrl-C with a silent server: {} found", found.len());
    assert!(found.is_empty(), "{} of {count}\n{}", found.len(), found.join("\n\n"));

    // What was broken off is in nobody's way.
    let args = frozen.args("import", frozen.server.url());
    frozen.work.succeed(&strs(&args)).unwrap();
    assert_eq!(crate::litter::find(&frozen.work), [""; 0]);
}
