//! The `millstream` command on the simulated CUDA driver: the whole line, with the ring's pinned
//! memory, copy stream and events, and with libtorch computing on the simulator's memory.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use fake_cuda::Simulator;
use serde_json::Value;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tempfile::TempDir;

const SETTINGS: &str = r#"
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

/// A folder to run in.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pipeline.toml"), SETTINGS).unwrap();
        Bench { folder }
    }

    fn command(&self, subcommand: &str, device: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
        let device = format!("prefetch.device={device}");
        command.args([subcommand, "--json", "--set", &device]).current_dir(self.folder.path());
        command
    }

    /// On the simulator, which leaves a report in `report`.
    fn simulated(&self, subcommand: &str) -> Command {
        let mut command = self.command(subcommand, "fake-cuda");
        command.env("MILLSTREAM_FAKE_CUDA", Simulator::library());
        command.env("FAKE_CUDA_REPORT", self.report());
        command
    }

    fn report(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// What the simulator counted, by name, when the last context was given back.
    fn counts(&self) -> HashMap<String, u64> {
        let text = std::fs::read_to_string(self.report()).unwrap();
        print!("{text}");
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
    }

    fn weights(&self, result: &Value) -> Vec<u8> {
        let run = self.folder.path().join(result["run"].as_str().unwrap());
        std::fs::read(run.join("checkpoints/best/model.safetensors")).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let stdout = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(stdout.lines().last().unwrap()).unwrap()
}

/// The command fails with exit code 4 and one line that says all of these.
fn check_fails(command: &mut Command, expected: &[&str]) {
    let output = command.output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(4), "{text}");
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    for part in expected {
        assert!(errors[0].contains(part), "{:?} does not say {part:?}", errors[0]);
    }
}

#[test]
fn a_run_through_the_ring_learns_the_same_weights_bit_for_bit() {
    let bench = Bench::new();
    let on_cpu = json(&mut bench.command("train", "cpu"));
    let through_ring = json(&mut bench.simulated("train"));
    assert_eq!(bench.weights(&on_cpu), bench.weights(&through_ring));
    assert_eq!(on_cpu["test"], through_ring["test"]);

    let counts = bench.counts();
    assert_eq!(counts["hazards"], 0);
    // One copy per batch, and as many slots as the settings say, whatever the number of batches.
    let batches = through_ring["stages"]["trainer"]["items"].as_u64().unwrap();
    assert!(batches > 20, "{batches} batches");
    assert_eq!(counts["cuMemcpyHtoDAsync_v2"], batches);
    assert_eq!((counts["cuMemHostAlloc"], counts["cuMemAlloc_v2"]), (3, 3));
    for left in ["live_pinned", "live_device", "live_events", "live_streams"] {
        assert_eq!(counts[left], 0, "{left}");
    }
}

#[test]
fn the_whole_pipeline_runs_through_the_ring() {
    let bench = Bench::new();
    let result = json(&mut bench.simulated("pipeline"));
    assert!(result["test"]["mse"].is_number(), "{result}");
    let counts = bench.counts();
    assert_eq!((counts["hazards"], counts["live_pinned"], counts["live_device"]), (0, 0, 0));
    // Once to train and once to predict.
    assert_eq!((counts["cuMemHostAlloc"], counts["cuMemAlloc_v2"]), (6, 6));
}

#[test]
fn a_device_that_fails_is_one_line_and_leaves_no_run() {
    let bench = Bench::new();
    let fails = |fault: &str, expected: &[&str]| {
        check_fails(bench.simulated("train").env("FAKE_CUDA_FAULT", fault), expected);
        assert!(!bench.folder.path().join("runs").exists(), "{fault}: a run was left behind");
    };
    fails("cuInit:1:100:once", &["fake-cuda", "no device"]);
    fails("cuStreamCreate:1:2:once", &["copy stream", "out of memory"]);
    fails("cuMemHostAlloc:2:2:once", &["pinned memory", "out of memory"]);
    fails("cuMemAlloc_v2:3:2:once", &["device memory", "out of memory"]);
    fails("cuMemcpyHtoDAsync_v2:2:700:when_run", &["illegal memory access"]);
    let mut small = bench.simulated("train");
    check_fails(small.env("FAKE_CUDA_MEMORY", "4096"), &["device memory", "out of memory"]);
}

#[test]
fn the_simulator_is_never_found_by_accident() {
    let bench = Bench::new();
    let mut command = bench.command("train", "fake-cuda");
    check_fails(command.env_remove("MILLSTREAM_FAKE_CUDA"), &["tests", "MILLSTREAM_FAKE_CUDA"]);
    command.env("MILLSTREAM_FAKE_CUDA", Path::new("no/such/library.so"));
    check_fails(&mut command, &["cannot load no/such/library.so"]);
}

/// With a driver on the machine, as far as the program can tell.
#[test]
fn a_libtorch_without_cuda_says_so_where_there_is_a_device() {
    if tch::Cuda::is_available() {
        println!("SKIPPED: this libtorch can compute with CUDA");
        return;
    }
    let bench = Bench::new();
    let with_driver = |device: &str| {
        let mut command = bench.command("train", device);
        command.env("LD_PRELOAD", Simulator::library());
        command
    };
    check_fails(&mut with_driver("cuda:0"), &["cuda:0", "this libtorch cannot compute with CUDA"]);
    check_fails(&mut with_driver("cuda:7"), &["cuda:7", "1 CUDA devices"]);
    let output = with_driver("auto").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    let line = said.lines().find(|line| line.starts_with("computing on")).unwrap();
    assert!(line.contains("the CPU: fake-cuda is there, but this libtorch cannot"), "{line}");
}
