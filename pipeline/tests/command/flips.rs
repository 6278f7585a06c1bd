//! A flipped byte in any file of a run or of the cache is noticed, or changes nothing that comes of the
//! run.

use crate::bench::{Bench, SMALL, stderr};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// How many bytes are flipped, one at a time; `MILLSTREAM_TEST_FLIPS` asks for more.
const FLIPS: u64 = 60;

/// What came of a command with a run.
#[derive(Debug, PartialEq)]
struct Found {
    /// The files that it is about.
    files: Vec<Vec<u8>>,
    /// Figures, without what the clock decides.
    figures: Value,
}

/// What is done with a run.
#[derive(Debug, Clone, Copy)]
enum Use {
    Resume,
    Predict,
    /// Without a name: the newest run is looked for.
    PredictNewest,
}

/// A run that a crash left in its middle.
fn crashed(bench: &Bench) -> PathBuf {
    let mut command = bench.command(&["train", "--set", "train.epochs=8"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line.starts_with("epoch 1")).expect("the run says when an epoch is done");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-KILL", &id]).status().unwrap().success());
    child.wait().unwrap();
    let run = fs::read_dir(bench.path("runs")).unwrap().next().unwrap().unwrap().path();
    // As a crash before its end leaves it, in any case.
    let report = run.join("report.json");
    assert!(!report.exists(), "the run was too fast to be killed");
    fs::write(report, "{}\n").unwrap();
    fs::write(run.join("warnings.txt"), "something\n").unwrap();
    run
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Every file below, by its path from there.
fn files(folder: &Path, below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join(below)).unwrap().map(|entry| entry.unwrap()) {
        let path = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(folder, &path));
        } else if fs::metadata(folder.join(&path)).unwrap().len() > 0 {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn run_it(bench: &Bench, run: &Path, how: Use) -> Output {
    let name = run.to_str().unwrap();
    match how {
        Use::Resume => bench.run(&["train", "--json", "--resume", name]),
        Use::Predict => bench.run(&["predict", "--json", "--run", name, "--output", "out.csv"]),
        Use::PredictNewest => bench.run(&["predict", "--json", "--output", "out.csv"]),
    }
}

/// What came of it, and the warnings.
fn result(bench: &Bench, run: &Path, how: Use, output: &Output) -> (Found, Vec<Value>) {
    let stdout = String::from_utf8(output.stdout.clone()).unwrap();
    let mut json: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let warnings = json["warnings"].as_array().unwrap().clone();
    let fields = json.as_object_mut().unwrap();
    for clock in
        ["run", "stages", "seconds", "samples_per_s", "wait_share", "peak_rss_mb", "warnings"]
    {
        fields.remove(clock);
    }
    let files = match how {
        Use::Resume => {
            ["last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"]
                .map(|name| fs::read(run.join("checkpoints").join(name)).unwrap())
                .into()
        }
        Use::Predict | Use::PredictNewest => vec![fs::read(bench.path("out.csv")).unwrap()],
    };
    (Found { files, figures: json }, warnings)
}

#[test]
fn every_flipped_byte_is_noticed_or_without_effect() {
    let bench = Bench::new(SMALL);
    let original = bench.path("original");
    let crashed = crashed(&bench);
    fs::rename(&crashed, &original).unwrap();
    // Another run beside it, older and trained otherwise, which `predict` must not take for it.
    bench.json(&["train", "--json", "--set", "train.epochs=1"]);
    let older = fs::read_dir(bench.path("runs")).unwrap().next().unwrap().unwrap().path();
    let (run, cache) = (bench.path("runs/the-newest"), bench.path(".millstream/cache"));
    let original_cache = bench.path("original-cache");
    copy(&cache, &original_cache);
    let fresh = || {
        for (from, to) in [(&original, &run), (&original_cache, &cache)] {
            drop(fs::remove_dir_all(to));
            copy(from, to);
        }
    };
    set_start(&older, "2001-01-01 00:00:00");

    let uses = [Use::Resume, Use::Predict, Use::PredictNewest];
    let expected = uses.map(|how| {
        fresh();
        let output = run_it(&bench, &run, how);
        assert!(output.status.success(), "{how:?}: {}", stderr(&output));
        result(&bench, &run, how, &output)
    });
    let of_run = files(&original, Path::new("")).into_iter().map(|name| run.join(name));
    let of_cache = files(&original_cache, Path::new("")).into_iter().map(|name| cache.join(name));
    let (of_run, of_cache): (Vec<_>, Vec<_>) = (of_run.collect(), of_cache.collect());
    assert!(of_run.len() >= 18 && of_cache.len() >= 2, "{of_run:?} {of_cache:?}");
    let paths = [of_run, of_cache].concat();
    let flips = std::env::var("MILLSTREAM_TEST_FLIPS").ok().map(|flips| flips.parse().unwrap());
    let mut dice = 42u64;
    let mut roll = |sides: usize| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(dice) * sides as u128) >> 64) as usize
    };
    let mut refused = 0;
    for flip in 0..flips.unwrap_or(FLIPS) {
        fresh();
        let path = &paths[roll(paths.len())];
        let mut bytes = fs::read(path).unwrap();
        let (at, bit) = (roll(bytes.len()), roll(8));
        bytes[at] ^= 1 << bit;
        fs::write(path, bytes).unwrap();
        let which = roll(uses.len());
        let (how, (expected, warned_anyway)) = (uses[which], &expected[which]);
        let case = format!("flip {flip}: bit {bit} of byte {at} of {}, {how:?}", path.display());
        let output = run_it(&bench, &run, how);
        if !output.status.success() {
            let (code, text) = (output.status.code(), stderr(&output));
            assert!(matches!(code, Some(1..=3)), "{case}: {code:?} {text}");
            let errors: Vec<&str> = text.lines().filter(|l| l.starts_with("error: ")).collect();
            assert!(errors.len() == 1 && errors[0].len() < 500, "{case}: {text}");
            refused += 1;
            continue;
        }
        let (found, warnings) = result(&bench, &run, how, &output);
        let is_noticed = warnings.iter().any(|line| !warned_anyway.contains(line));
        assert!(is_noticed || found == *expected, "{case}: changed, and nobody noticed");
    }
    let flips = flips.unwrap_or(FLIPS);
    println!("TRIED {flips} flipped bytes over {} files: {refused} refused", paths.len());
    assert!(refused > 0, "some of them are in checkpoints");
}

/// Has a run started at another time, as its files should say then.
fn set_start(run: &Path, time: &str) {
    let note = serde_json::json!({ "started": time, "version": "0" }).to_string();
    let mut checksums = millstream_data::Checksums::default();
    checksums.add("run.json", note.as_bytes());
    checksums.add("config.toml", &fs::read(run.join("config.toml")).unwrap());
    fs::write(run.join("run.json"), note).unwrap();
    fs::write(run.join("checksums.txt"), checksums.to_text()).unwrap();
}
