//! A folder to run the `millstream` command in, as a user does.

use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// A folder to run in, with a settings file.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
}

/// Settings for data that trains in seconds.
pub(crate) const SMALL: &str = r#"
[source.generate]
series = 24
rows = 120
features = 4
[window]
lookback = 12
[train]
epochs = 2
batch_size = 64
learning_rate = 0.01
log_every = 5
[train.model_options]
hidden = 16
[run]
threads = 1
"#;

impl Bench {
    pub(crate) fn new(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pipeline.toml"), settings).unwrap();
        Bench { folder }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        command.args(args).current_dir(self.folder.path()).env_remove("LD_LIBRARY_PATH");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed and gives its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let stdout = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
    }

    /// Interrupts a training after its first epoch; gives the run that it says can be resumed.
    pub(crate) fn interrupted(&self, args: &[&str]) -> String {
        let mut command = self.command(args);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        // The second epoch is under way: there is something to save.
        lines.find(|line| line.starts_with("epoch 1")).expect("the run says when an epoch is done");
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let said: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{said:?}");
        let hint = said.iter().find(|line| line.contains("--resume"));
        hint.unwrap_or_else(|| panic!("{said:?}")).rsplit(' ').next().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The command fails with this code and one line that says all of these.
pub(crate) fn check_fails(output: &Output, code: i32, expected: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for part in expected {
        assert!(errors[0].contains(part), "{:?} does not say {part:?}", errors[0]);
    }
}

impl Bench {
    /// Writes a table of `series` series with `rows` days each, a random walk `close` and a wave
    /// `f1`, and settings to learn from it.
    pub(crate) fn with_csv(series: usize, rows: usize, settings: &str) -> Self {
        let bench = Bench::new(&format!("{CSV}{settings}"));
        bench.write_csv("prices.csv", series, rows, day);
        bench
    }

    /// Writes such a table, with times as `time` writes them.
    pub(crate) fn write_csv(
        &self,
        name: &str,
        series: usize,
        rows: usize,
        time: fn(usize) -> String,
    ) {
        let mut text = "symbol,trade_date,close,f1\n".to_owned();
        for s in 0..series {
            let mut close = 100.0 + s as f64;
            for t in 0..rows {
                // A hash is random enough, and the same on every machine.
                let dice = (s * 7919 + t * 104_729 + 13).wrapping_mul(2_654_435_761) % 1000;
                close *= 1.0 + (dice as f64 - 500.0) / 50_000.0;
                let wave = ((t + s) as f64 * 0.3).sin();
                text += &format!("s{s:02},{},{close:.4},{wave:.5}\n", time(t));
            }
        }
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The rows of a CSV file of forecasts, by the names in its header.
    pub(crate) fn forecasts(&self, args: &[&str]) -> Vec<BTreeMap<String, String>> {
        let file = self.path("forecasts.csv");
        self.json(&[&["predict", "--json", "--output", "forecasts.csv"], args].concat());
        let text = std::fs::read_to_string(file).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
        let names: Vec<String> = lines.next().unwrap().collect();
        lines.map(|line| names.iter().cloned().zip(line).collect()).collect()
    }
}

/// Day number `t` from 2020-01-01 on.
pub(crate) fn day(t: usize) -> String {
    let (mut year, mut left) = (2020, t);
    loop {
        let leap = year % 4 == 0;
        let months = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, days) in months.into_iter().enumerate() {
            if left < days {
                return format!("{year}-{:02}-{:02}", month + 1, left + 1);
            }
            left -= days;
        }
        year += 1;
    }
}

const CSV: &str = r#"
[source]
kind = "csv"
path = "prices.csv"
[target]
columns = ["close"]
[window]
lookback = 5
[train]
epochs = 1
batch_size = 64
[train.model_options]
hidden = 4
[run]
threads = 1
"#;
