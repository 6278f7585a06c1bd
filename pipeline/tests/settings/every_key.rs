//! No setting without effect: every key of `pipeline.toml` is changed, and the run then gives
//! another result, or an error, or there is a documented reason why nothing can be seen.
//!
//! A new key needs one line in [`WALK`].

use crate::{
    keys,
    work_folder::{Ran, WorkFolder},
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

pub(crate) const SMALL: &str = r#"
[source]
kind = "csv"
path = "data.csv"
features = ["open", "close", "ret", "volume"]
cache = ""
[source.generate]
series = 24
rows = 80
features = 4
[target]
columns = ["ret"]
[window]
lookback = 8
[train]
epochs = 1
batch_size = 64
log_every = 5
[run]
threads = 1
"#;

/// How a change of a key is seen.
enum Seen {
    /// `pipeline` gives something else with this value.
    Result(&'static str),
    /// It is refused, with this exit code and these words.
    Refused(&'static str, i32, &'static str),
    /// `pipeline` gives the same, and that is right.
    Same(&'static str, &'static str),
    /// `doctor` says something else.
    Doctor(&'static str),
    /// It is tested elsewhere.
    Elsewhere(&'static str),
}
use Seen::{Doctor, Elsewhere, Refused, Result as Other, Same};

const GENERATE: &[&str] =
    &["source.kind=generate", r#"source.features=["*"]"#, "target.columns=[\"close_pct\"]"];
/// At such a rate the validation loss goes up and down.
const PLATEAU: &[&str] = &["train.schedule=plateau", "train.learning_rate=0.5", "train.epochs=4"];
const POSTGRES: &[&str] = &["source.kind=postgres", "source.table=t"];
const TRANSFORMER: &[&str] = &["train.model=transformer"];
const SEGMENTS: &[&str] =
    &["train.model=transformer", "window.segment=sector", "train.model_options.segments=4"];
const NONFINITE: &str = "differs where a number is none: trainer/tests/it/nonfinite.rs";
const CHECKPOINT: &str = "changes memory and time, not results: model/tests/checkpoint_memory.rs";
const TWO_TARGETS: &str = r#"target.columns=["close", "ret"]"#;
const SERVER: &str = "needs a server: loader/tests/loader reads tables and queries with it";

/// Key, settings that it needs, and how a change of it is seen.
const WALK: &[(&str, &[&str], Seen)] = &[
    ("source.kind", &[], Refused("parquet", 3, "data.csv")),
    ("source.path", &[], Other("other.csv")),
    ("source.url", POSTGRES, Refused("host=/nowhere", 3, "/nowhere")),
    ("source.table", &[], Elsewhere(SERVER)),
    ("source.query", &[], Elsewhere(SERVER)),
    ("source.where", &[], Refused("volume > 0", 2, "source.where")),
    ("source.series", &[], Other("isin")),
    ("source.time", &[], Other("day")),
    ("source.features", &[], Other(r#"["open", "ret"]"#)),
    ("source.symbols", &[], Other(r#"["S00", "S01", "S02"]"#)),
    (
        "source.symbols_required",
        &[r#"source.symbols=["S00", "S01", "S99"]"#],
        Refused("true", 2, "S99"),
    ),
    ("source.na", &[], Other(r#"["50.0000"]"#)),
    ("source.from", &[], Other("2020-01-10")),
    ("source.to", &[], Other("2020-03-20")),
    (
        "source.connections",
        &[],
        Elsewhere("changes speed, not results; the loader's tests read with several"),
    ),
    ("source.cache", &[], Other("kept")),
    ("source.generate.series", GENERATE, Other("20")),
    ("source.generate.rows", GENERATE, Other("90")),
    ("source.generate.features", GENERATE, Other("3")),
    ("source.generate.missing", GENERATE, Other("0.2")),
    ("source.generate.short", GENERATE, Other("0.5")),
    ("source.generate.seed", GENERATE, Other("8")),
    ("target.columns", &[], Other(r#"["close"]"#)),
    ("target.kind", &["target.columns=[\"close\"]"], Other("return")),
    ("target.delay", &["target.columns=[\"close\"]", "target.kind=return"], Other("1")),
    ("target.dead_band", &["target.columns=[\"close\"]", "target.kind=direction"], Other("0.01")),
    ("target.cross_section", &[], Other("rank")),
    ("target.season", &[], Other("5")),
    ("window.lookback", &[], Other("10")),
    ("window.horizon", &[], Other("2")),
    ("window.stride", &[], Other("2")),
    ("window.short", &[], Other("pad")),
    ("window.pad", &["window.short=pad"], Other("right")),
    ("window.min_rows", &["window.short=pad"], Other("4")),
    ("window.segment", &[], Refused("sector", 2, "train.model")),
    ("window.order", &[], Other("none")),
    ("window.drop_last", &["train.batch_size=50"], Other("true")),
    ("split.by", &[], Other("series")),
    ("split.train", &[], Other("0.6")),
    ("split.train_end", &[], Other("2020-02-20")),
    ("split.validation", &[], Other("0.2")),
    ("split.validation_end", &[], Other("2020-03-20")),
    ("split.test_end", &[], Other("2020-03-22")),
    ("split.embargo", &[], Other("2")),
    ("split.folds", &[], Other("2")),
    ("split.fold", &["split.folds=2"], Other("2")),
    ("split.walk", &["split.folds=2", "split.fold=2"], Other("rolling")),
    ("split.seed", &["split.by=series"], Other("1")),
    ("scale.method", &[], Other("robust")),
    ("scale.per", &[], Other("series")),
    ("scale.missing", &[], Other("drop")),
    ("scale.clip", &[], Other("1")),
    ("scale.cross_section", &[], Other("rank")),
    ("scale.reference", &[], Other("last")),
    (
        "scale.relative",
        &[r#"source.features=["open", "close"]"#, "scale.reference=first"],
        Other("ratio"),
    ),
    ("scale.groups", &[], Other(r#"[{columns = ["open"], clip = 0.5}]"#)),
    ("prefetch.device", &[], Refused("cuda:0", 4, "cuda:0")),
    ("prefetch.residency", &[], Same("ram", "auto is ram until there are more")),
    ("prefetch.depth", &[], Same("1", "changes speed and memory, not results")),
    ("train.model", &[], Other("gru")),
    ("train.epochs", &[], Other("2")),
    ("train.batch_size", &[], Other("32")),
    ("train.learning_rate", &[], Other("0.01")),
    ("train.schedule", &[], Other("constant")),
    ("train.warmup", &[], Other("3")),
    ("train.step_epochs", &["train.schedule=step", "train.epochs=2"], Other("2")),
    ("train.patience", PLATEAU, Other("1")),
    ("train.rate_factor", &["train.schedule=step", "train.epochs=2"], Other("0.1")),
    ("train.optimizer", &[], Other("sgd")),
    ("train.weight_decay", &[], Other("1")),
    ("train.decay_all", &["train.weight_decay=1"], Other("true")),
    ("train.momentum", &["train.optimizer=sgd"], Other("0.5")),
    ("train.nesterov", &["train.optimizer=sgd"], Other("true")),
    ("train.loss", &[], Other("mae")),
    ("train.quantiles", &["train.loss=quantile"], Other("[0.2, 0.5]")),
    ("train.clip_norm", &[], Other("0.01")),
    ("train.accumulate", &[], Other("2")),
    ("train.precision", &[], Other("bf16")),
    ("train.loss_scale", &["train.precision=bf16"], Other("1e38")),
    ("train.nonfinite", &[], Elsewhere(NONFINITE)),
    ("train.ema", &[], Other("0.9")),
    ("train.early_stop", PLATEAU, Other("1")),
    ("train.seed", &[], Other("1")),
    ("train.log_every", &[], Other("2")),
    ("train.histograms", &[], Other("true")),
    ("train.model_options.hidden", &[], Other("5")),
    ("train.model_options.layers", &[], Other("2")),
    ("train.model_options.dropout", &["train.model_options.layers=2"], Other("0.5")),
    ("train.model_options.width", TRANSFORMER, Other("32")),
    ("train.model_options.heads", TRANSFORMER, Other("2")),
    ("train.model_options.feedforward", TRANSFORMER, Other("16")),
    ("train.model_options.segments", SEGMENTS, Other("5")),
    ("train.model_options.checkpoint", TRANSFORMER, Elsewhere(CHECKPOINT)),
    ("train.model_options.path", &["train.model=script"], Refused("nope.pt", 2, "nope.pt")),
    (
        "train.model_options.checksum",
        &["train.model=script", "train.model_options.path=data.csv"],
        Refused("00", 2, "the file with checksum 00"),
    ),
    ("train.model_options.activation", &["train.model=mlp"], Other("relu")),
    ("train.model_options.individual", &["train.model=nlinear", TWO_TARGETS], Other("true")),
    ("train.model_options.kernel", &["train.model=dlinear"], Other("3")),
    ("run.dir", &[], Other("elsewhere")),
    ("run.threads", &[], Doctor("3")),
    ("run.normalize_threads", &[], Doctor("3")),
    ("run.train_threads", &[], Doctor("3")),
];

/// Settings without which a key has no effect.
pub(crate) fn company(key: &str) -> &'static [&'static str] {
    WALK.iter().find(|(walked, ..)| *walked == key).map_or(&[], |(_, with, _)| with)
}

/// How the files for TensorBoard begin.
const EVENTS: &str = "events.out.tfevents.";

/// How many records such a file has: a length, its checksum, so many bytes, their checksum.
fn records(mut bytes: &[u8]) -> usize {
    let mut records = 0;
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        (bytes, records) = (&bytes[8 + 4 + length + 4..], records + 1);
    }
    records
}

/// Everything of a run that a setting may change, and nothing that changes by itself.
type Outcome = BTreeMap<String, String>;

fn flags(with: &[&str], change: Option<(&str, &str)>) -> Vec<String> {
    let change = change.map(|(key, value)| format!("{key}={value}"));
    let set = with.iter().map(|text| (*text).to_owned()).chain(change);
    set.flat_map(|text| ["--set".to_owned(), text]).collect()
}

fn run(command: &str, set: &[String]) -> (WorkFolder, Ran) {
    let work = WorkFolder::new(SMALL);
    let args = [&[command.to_owned(), "--json".to_owned()], set].concat();
    let ran = work.run(&args).unwrap();
    (work, ran)
}

fn outcome(set: &[String]) -> Outcome {
    let (work, Ran { code, stdout, stderr }) = run("pipeline", set);
    assert_eq!(code, Some(0), "{set:?}: {stderr}");
    let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let run = result["run"].as_str().unwrap().to_owned();
    let figures = ["steps", "train_loss", "validation", "test", "baseline"];
    let mut seen: Outcome =
        figures.iter().map(|name| ((*name).to_owned(), result[*name].to_string())).collect();
    for path in work.files() {
        let name = path.to_str().unwrap().replace(&run, "RUN");
        // What is inside is compared where nothing in it is a time or a setting.
        let told = ["safetensors", "json", "parquet"].iter().any(|end| name.ends_with(end));
        let content = std::fs::read(work.path().join(&path)).unwrap();
        let of_the_moment = ["state.json", "report.json", "run.json"];
        let content = if told && !of_the_moment.iter().any(|end| name.ends_with(end)) {
            format!("{content:?}")
        } else if name.contains(EVENTS) {
            records(&content).to_string()
        } else if name.ends_with("metrics.jsonl") {
            content.iter().filter(|&&byte| byte == b'\n').count().to_string()
        } else {
            String::new()
        };
        // The files for TensorBoard are named after the time.
        let name =
            name.split_once(EVENTS).map_or(name.clone(), |(folder, _)| folder.to_owned() + EVENTS);
        // Panels of the cache are named after what is in them.
        let name = if name.starts_with("kept") { "kept".to_owned() } else { name };
        let folder = run.rsplit_once('/').map_or("", |(folder, _)| folder);
        seen.insert(name.replace("RUN", &format!("{folder}/RUN")), content);
    }
    seen
}

fn doctor(set: &[String]) -> String {
    run("doctor", set).1.stdout
}

/// What is wrong with the line of a key, if anything.
fn try_key(
    (key, with, seen): &(&str, &[&str], Seen),
    before: &mut HashMap<Vec<String>, Outcome>,
) -> Result<(), String> {
    let plain = flags(with, None);
    let mut differs = |value: &str| {
        let before = before.entry(plain.clone()).or_insert_with_key(|set| outcome(set));
        *before != outcome(&flags(with, Some((key, value))))
    };
    match seen {
        Other(value) if !differs(value) => Err(format!("{key} = {value} changes nothing")),
        Same(value, reason) if differs(value) => {
            Err(format!("{key} = {value} changes something ({reason})"))
        }
        Doctor(value) if doctor(&plain) == doctor(&flags(with, Some((key, value)))) => {
            Err(format!("{key} = {value} changes nothing that doctor says"))
        }
        Refused(value, code, words) => {
            let ran = run("train", &flags(with, Some((key, value)))).1;
            let line = ran.stderr.lines().find(|line| line.starts_with("error: "));
            match line {
                Some(line) if ran.code == Some(*code) && line.contains(words) => Ok(()),
                _ => Err(format!("{key} = {value}: {:?} {}", ran.code, ran.stderr)),
            }
        }
        Elsewhere("") => Err(format!("{key} has no reason")),
        _ => Ok(()),
    }
}

/// Walks one in so many keys, so that the walks of several tests run side by side.
fn walk(part: usize, parts: usize) {
    let mut before = HashMap::new();
    let keys = WALK.iter().skip(part).step_by(parts);
    let wrong: Vec<String> = keys.filter_map(|key| try_key(key, &mut before).err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_key_does_something_first_half() {
    walk(0, 2);
}

#[test]
fn every_key_does_something_second_half() {
    walk(1, 2);
}

#[test]
fn the_walk_passes_every_key() {
    let mut walked: Vec<_> = WALK.iter().map(|(key, ..)| (*key).to_owned()).collect();
    let mut all = keys::all();
    walked.sort();
    all.sort();
    let missing: Vec<_> = all.iter().filter(|key| !walked.contains(key)).collect();
    assert!(missing.is_empty(), "add a line to WALK for each of {missing:?}");
    assert_eq!(walked, all, "there is no such key any more, or it is walked twice");
}

#[test]
fn a_run_that_goes_on_refuses_variables_that_would_change_it() {
    let (work, trained) = run("train", &[]);
    let result: Value = serde_json::from_str(trained.stdout.lines().last().unwrap()).unwrap();
    let args = ["train", "--resume", result["run"].as_str().unwrap()].map(String::from);
    let check = |value: &str, expected: &str| {
        let resumed = work.run_with(&args, &[("MILLSTREAM_TRAIN__EPOCHS", value)]).unwrap();
        assert_eq!(resumed.code, Some(2), "{}", resumed.stderr);
        assert!(resumed.stderr.contains(expected), "{}", resumed.stderr);
    };
    check("2", "MILLSTREAM_TRAIN__EPOCHS would change train.epochs from 1 to 2");
    // The same value changes nothing, so it is as if it were not there.
    check("1", "has finished");
}
