//! One process at a time goes on with a run; any number may predict with it, even while it is live.

use crate::bench::{Bench, SMALL, check_fails, stderr};
use std::{
    io::{BufRead, BufReader, Lines, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

/// A process that does not outlive its test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A training that is under way.
struct Live {
    child: Guarded,
    said: Lines<BufReader<ChildStderr>>,
    run: PathBuf,
}

impl Live {
    fn start(bench: &Bench, args: &[&str]) -> Self {
        let mut command = bench.command(args);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let run =
            said.by_ref().find_map(|line| Some(line.unwrap().strip_prefix("run ")?.to_owned()));
        let run = bench.path(run.expect("a training says where it runs").trim());
        Live { child: Guarded(child), said, run }
    }

    fn wait_for(&mut self, start: &str) {
        self.said.by_ref().find(|line| line.as_ref().unwrap().starts_with(start)).unwrap().unwrap();
    }

    fn signal(&self, name: &str) {
        let id = self.child.0.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// What it says from now on, and its exit code.
    fn end(mut self) -> (Vec<String>, Option<i32>) {
        let said = self.said.map_while(Result::ok).collect();
        (said, self.child.0.wait().unwrap().code())
    }
}

/// Runs a command four times at once.
fn at_once(bench: &Bench, args: &[&str]) -> Vec<Output> {
    let start = |_| {
        let mut command = bench.command(args);
        Guarded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let children: Vec<Guarded> = (0..4).map(start).collect();
    let outputs = children.into_iter().map(|mut child| {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        // Small enough for their pipes, so one after the other.
        child.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        child.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        Output { status: child.0.wait().unwrap(), stdout, stderr }
    });
    outputs.collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_live_run_is_not_resumed_and_can_be_predicted_with() {
    let bench = Bench::new(SMALL);
    let mut live = Live::start(&bench, &["train", "--set", "train.epochs=100000"]);
    live.wait_for("epoch 1");
    let run = live.run.to_str().unwrap().to_owned();
    let process = format!("is in use by millstream train (process {} on ", live.child.0.id());
    for _ in 0..3 {
        check_fails(&bench.run(&["train", "--resume", &run]), 2, &[&process, ", since 20"]);
    }
    for output in at_once(&bench, &["predict", "--run", &run]) {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    live.signal("-INT");
    let (said, code) = live.end();
    assert_eq!(code, Some(5), "the healthy run was harmed: {said:?}");
    assert!(said.iter().any(|line| line.contains("--resume")), "{said:?}");
    let expected = [
        "checkpoints",
        "checksums.txt",
        "config.toml",
        "metrics.jsonl",
        "predictions.parquet",
        "report.json",
        "run.json",
    ];
    let others =
        |name: &String| name != "warnings.txt" && !name.starts_with("events.out.tfevents.");
    let left: Vec<String> = names(Path::new(&run)).into_iter().filter(others).collect();
    assert_eq!(left, expected);
    assert_eq!(names(&Path::new(&run).join("checkpoints")), ["best", "last"]);
}

#[test]
fn of_several_resumes_at_once_one_goes_on() {
    let bench = Bench::new(SMALL);
    let whole = bench.json(&["train", "--json", "--set", "train.epochs=40"]);
    let run = &bench.interrupted(&["train", "--set", "train.epochs=40"]);
    let outputs = at_once(&bench, &["train", "--resume", run]);
    let (done, refused): (Vec<_>, Vec<_>) =
        outputs.iter().partition(|output| output.status.success());
    assert_eq!(done.len(), 1, "{:?}", outputs.iter().map(stderr).collect::<Vec<_>>());
    for output in refused {
        assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
        let text = stderr(output);
        assert!(text.contains("is in use by") || text.contains("has finished"), "{text}");
    }
    let weights = |run: &str| {
        std::fs::read(bench.path(run).join("checkpoints/last/model.safetensors")).unwrap()
    };
    assert_eq!(weights(run), weights(whole["run"].as_str().unwrap()), "not the same weights");
}

#[test]
fn several_predictions_into_one_file_leave_one_whole_file() {
    let bench = Bench::new(SMALL);
    bench.json(&["train", "--json"]);
    bench.json(&["predict", "--json", "--output", "one.csv"]);
    let before = bench.files();
    // Left by a kill; the next prediction removes it.
    std::fs::write(bench.path(".two.csv.partial-1"), "half").unwrap();
    for output in at_once(&bench, &["predict", "--output", "two.csv"]) {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let text = |name: &str| std::fs::read(bench.path(name)).unwrap();
    assert!(text("one.csv") == text("two.csv"));
    let expected: Vec<String> =
        bench.files().into_iter().filter(|name| name != "two.csv").collect();
    assert_eq!(expected, before);
}

/// Before the first step nothing is kept; from then on, a run has its look before training.
#[test]
fn an_early_interruption_leaves_nothing_or_a_run_with_its_first_line() {
    let bench = Bench::new(SMALL);
    for wait_for in [None, Some("epoch 1")] {
        let mut live = Live::start(&bench, &["train", "--set", "train.epochs=20"]);
        if let Some(line) = wait_for {
            live.wait_for(line);
        }
        live.signal("-INT");
        let run = live.run.clone();
        let (said, code) = live.end();
        assert_eq!(code, Some(5), "{said:?}");
        if said.iter().any(|line| line.contains("nothing was saved")) {
            assert!(!bench.path("runs").exists(), "{said:?}");
            continue;
        }
        let resumed = bench.json(&["train", "--json", "--resume", run.to_str().unwrap()]);
        assert!(resumed["first_validation"]["mse"].is_number(), "{resumed}");
        let journal = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let looks = journal.lines().filter(|line| line.starts_with("{\"epoch\":0,")).count();
        assert!(looks == 1 && journal.starts_with("{\"epoch\":0,"), "{journal}");
    }
}

/// A kill leaves the lock's file, and what was half written, but no lock.
#[test]
fn a_killed_run_goes_on_and_its_leftovers_are_removed() {
    let bench = Bench::new(SMALL);
    let mut live = Live::start(&bench, &["train", "--set", "train.epochs=30"]);
    live.wait_for("epoch 2");
    live.signal("-KILL");
    let run = live.run.clone();
    live.end();
    assert!(run.join("run.lock").exists());
    let leave = || {
        std::fs::write(run.join(".report.json.partial-1"), "half").unwrap();
        for folder in [".last.partial-1", ".best.old"] {
            std::fs::create_dir_all(run.join("checkpoints").join(folder)).unwrap();
        }
    };
    leave();
    // The moment in which `best` is replaced, on a system that cannot exchange names.
    std::fs::remove_dir(run.join("checkpoints/.best.old")).unwrap();
    std::fs::rename(run.join("checkpoints/best"), run.join("checkpoints/.best.old")).unwrap();
    bench.json(&["predict", "--json", "--run", run.to_str().unwrap()]);
    let hidden =
        |folder: &Path| names(folder).into_iter().filter(|name| name.starts_with('.')).count();
    assert!(hidden(&run) == 0 && !run.join("run.lock").exists(), "{:?}", names(&run));
    assert_eq!(names(&run.join("checkpoints")), ["best", "last"]);
    leave();
    bench.json(&["train", "--json", "--resume", run.to_str().unwrap()]);
    assert!(hidden(&run) == 0 && !run.join("run.lock").exists(), "{:?}", names(&run));
    assert_eq!(names(&run.join("checkpoints")), ["best", "last"]);
}

#[test]
fn a_model_that_has_no_room_is_refused_in_one_line() {
    let bench = Bench::new(SMALL);
    for key in ["hidden", "layers"] {
        for value in ["1000000000", "2147483648", "9223372036854775807"] {
            let set = format!("train.model_options.{key}={value}");
            let output = bench.run(&["train", "--set", &set]);
            let expected = format!("train.model_options.{key} is {value}, but must be at most ");
            check_fails(&output, 2, &[&expected, " of memory are there"]);
        }
    }
    assert_eq!(bench.files(), ["pipeline.toml"]);
    for key in ["accumulate=4294967295", "log_every=9223372036854775807"] {
        bench.json(&["train", "--json", "--set", &format!("train.{key}")]);
    }
}
