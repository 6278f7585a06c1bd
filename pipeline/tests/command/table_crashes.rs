//! A table of forecasts is the old or the new one, whole, whenever whoever writes it dies: the command, the
//! server's process that works for it, or with that the whole server, which then recovers.
//!
//! `MILLSTREAM_TEST_TABLE_CRASHES` says how often; moments are drawn, the same on every machine up to how
//! fast it is.

use crate::{
    bench::{Bench, stderr},
    running::Running,
    support::server::{Options, Server},
};
use postgres::{Client, NoTls};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

const IN_THE_SUITE: u64 = 6;
const SEED: u64 = 17;
const RECOVERS: Duration = Duration::from_secs(60);

const SETTINGS: &str = r#"
[source.generate]
series = 60
rows = 200
features = 2
[window]
lookback = 5
horizon = 2
[train]
epochs = 1
batch_size = 256
[train.model_options]
hidden = 4
[run]
threads = 1
"#;

/// All that a forecast says, of all forecasts, and how often they were written.
const DIGEST: &str = "SELECT md5(string_agg(concat_ws(',', series, time, step, target_time, \
     close_pct_forecast, close_pct, model, run), ';' ORDER BY series, time, step)) \
     || ' ' || count(*) || ' ' || count(DISTINCT created_at) FROM forecasts";

/// What the command's connection does, where there is one.
const WRITER: &str = "SELECT pid, query FROM pg_stat_activity \
     WHERE application_name = 'millstream' AND backend_type = 'client backend'";

struct Stage {
    bench: Bench,
    server: Server,
    client: Client,
    runs: [String; 2],
    url: String,
}

impl Stage {
    /// Two runs, and what the table is when either has written it.
    fn new() -> (Self, [String; 2]) {
        let bench = Bench::new(SETTINGS);
        let train = |seed: &str| {
            let result = bench.json(&["train", "--json", "--set", seed]);
            result["run"].as_str().unwrap().to_owned()
        };
        let runs = [train("train.seed=1"), train("train.seed=2")];
        let server = Server::with(&Options::default());
        let folder = server.socket().unwrap().parent().unwrap().display().to_string();
        let url = format!("postgres://tester@/postgres?host={folder}&table=forecasts");
        let client = Client::connect(server.url(), NoTls).unwrap();
        let mut stage = Stage { bench, server, client, runs, url };
        let digests = [0, 1].map(|run| {
            let output = stage.predict(run).output();
            assert!(output.status.success(), "{}", stderr(&output));
            let digest = stage.digest();
            if run == 0 {
                stage.client.batch_execute("CREATE TABLE saved AS TABLE forecasts").unwrap();
            }
            digest
        });
        assert_ne!(digests[0], digests[1]);
        for digest in &digests {
            assert!(digest.ends_with(" 1"), "one write, one time: {digest}");
        }
        (stage, digests)
    }

    fn predict(&self, run: usize) -> Running {
        let args =
            ["predict", "--from", "2015-01-01", "--run", &self.runs[run], "--output", &self.url];
        let mut command = self.bench.command(&args);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Running::start(command)
    }

    fn digest(&mut self) -> String {
        self.client.query_one(DIGEST, &[]).unwrap().get(0)
    }

    /// The table as the first run wrote it.
    fn put_back(&mut self) {
        let sql = "TRUNCATE forecasts; INSERT INTO forecasts SELECT * FROM saved";
        self.client.batch_execute(sql).unwrap();
    }

    /// The process that takes the forecasts, once it does.
    fn writer(&mut self) -> Option<i32> {
        let rows = self.client.query(WRITER, &[]).unwrap();
        let writes = |row: &&postgres::Row| {
            let query: String = row.get(1);
            ["COPY", "LOCK", "ANALYZE", "INSERT"].iter().any(|word| query.starts_with(word))
        };
        rows.iter().find(writes).map(|row| row.get(0))
    }

    /// Waits until nobody works for a command any more.
    fn settle(&mut self) {
        let begun = Instant::now();
        while !self.client.query(WRITER, &[]).unwrap().is_empty() {
            assert!(begun.elapsed() < RECOVERS, "the server goes on for nobody");
        }
    }

    /// Kills one of the server's processes, upon which it ends all others and recovers; waits for that.
    fn kill(&mut self, backend: i32) {
        let name = std::fs::read(format!("/proc/{backend}/cmdline")).unwrap_or_default();
        // It may have done its work.
        if !name.starts_with(b"postgres: tester") {
            return;
        }
        // SAFETY: a process of the server that this test has started, as its name says.
        let sent = unsafe { libc::kill(backend, libc::SIGKILL) };
        assert_eq!(sent, 0, "it is there and ours");
        let begun = Instant::now();
        while !self.client.is_closed() {
            drop(self.client.simple_query("SELECT 1"));
            assert!(begun.elapsed() < RECOVERS, "the server ends no connection");
        }
        self.client = loop {
            match Client::connect(self.server.url(), NoTls) {
                Ok(client) => break client,
                Err(error) => assert!(begun.elapsed() < RECOVERS, "{error}"),
            }
        };
    }

    /// How long writing takes, from the first row on.
    fn duration(&mut self) -> Duration {
        let running = self.predict(1);
        while self.writer().is_none() {
            running.still_runs();
        }
        let begun = Instant::now();
        let output = running.output();
        assert!(output.status.success(), "{}", stderr(&output));
        begun.elapsed()
    }
}

#[test]
fn a_crash_while_it_is_written_leaves_the_old_table_or_the_new() {
    let text = std::env::var("MILLSTREAM_TEST_TABLE_CRASHES");
    let wanted: u64 = text.map_or(IN_THE_SUITE, |text| text.parse().unwrap());
    let (mut stage, [old, new]) = Stage::new();
    let longest = stage.duration();
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let (mut olds, mut news) = (0, 0);
    for number in 0..wanted {
        stage.put_back();
        assert_eq!(stage.digest(), old);
        // Some come when all is done.
        let delay = longest.mul_f64(1.25 * f64::from(random.next_u32()) / f64::from(u32::MAX));
        let running = stage.predict(1);
        let writer = loop {
            if let Some(writer) = stage.writer() {
                break writer;
            }
            running.still_runs();
        };
        let begun = Instant::now();
        while begun.elapsed() < delay {
            std::hint::spin_loop();
        }
        if number % 2 == 0 {
            running.signal(libc::SIGKILL);
            let _killed = running.end();
        } else {
            if number % 4 == 1 {
                stage.client.execute("SELECT pg_terminate_backend($1)", &[&writer]).unwrap();
            } else {
                stage.kill(writer);
            }
            let output = running.output();
            let said = stderr(&output);
            let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
            let expected = if output.status.success() { 0 } else { 1 };
            assert_eq!(errors, expected, "{said}");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        }
        stage.settle();
        let found = stage.digest();
        match () {
            () if found == old => olds += 1,
            () if found == new => news += 1,
            () => panic!("crash {number} after {delay:?}: {found} is neither {old} nor {new}"),
        }
    }
    println!("TRIED {wanted} crashes: {olds} left the old table, {news} the new one");
    assert!(olds > 0, "no crash came before the end");
    // What a crash left keeps nobody from writing.
    assert!(stage.predict(1).end().success());
    assert_eq!(stage.digest(), new);
    drop(stage.server);
}
