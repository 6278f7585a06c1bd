//! What commands leave, to be compared bit for bit.
//!
//! Only times are left out: how long something took, and when.

use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// Contents by name.
pub(crate) type Results = BTreeMap<String, Vec<u8>>;

/// What differs from run to run in a JSON file.
const TIMES: [&str; 14] = [
    "created",
    "checksum",
    // Checksums of the journal and the events, which tell how fast it went.
    "journal",
    "events",
    // In the folder of a backtest, which is called after the time.
    "output",
    "peak_rss_mb",
    "run",
    "samples_per_s",
    "seconds",
    "stages",
    "train_seconds",
    "training_seconds",
    "wait_share",
    "warnings",
];

const TENSORS: [&str; 2] = ["model.safetensors", "optimizer.safetensors"];
const JSON: [&str; 3] = ["state.json", "schema.json", "scaler.json"];

/// The checkpoints, the journal, the report and the forecasts of a run; of a backtest those of its folds
/// too.
pub(crate) fn of_run(run: &Path) -> Results {
    let mut results = Results::new();
    for fold in fs::read_dir(run).into_iter().flatten().map(|entry| entry.unwrap()) {
        let name = fold.file_name().into_string().unwrap();
        if name.starts_with("fold-") {
            let of_fold = of_run(&fold.path()).into_iter();
            results.extend(of_fold.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        }
    }
    for which in ["last", "best"] {
        let checkpoint = run.join("checkpoints").join(which);
        for name in TENSORS {
            add(&mut results, &format!("{which}/{name}"), &checkpoint.join(name), |bytes| bytes);
        }
        for name in JSON {
            add(&mut results, &format!("{which}/{name}"), &checkpoint.join(name), without_times);
        }
    }
    add(&mut results, "metrics.jsonl", &run.join("metrics.jsonl"), |bytes| {
        bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).flat_map(line).collect()
    });
    add(&mut results, "report.json", &run.join("report.json"), without_times);
    add(&mut results, "predictions.parquet", &run.join("predictions.parquet"), |bytes| bytes);
    results
}

/// Every cached panel.
pub(crate) fn of_cache(cache: &Path) -> Results {
    let mut results = Results::new();
    let folders = fs::read_dir(cache).into_iter().flatten().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.is_dir() && path.extension().is_none()) {
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            match &*name {
                "lock" => {}
                "manifest.json" => add(&mut results, &name, &file, without_times),
                _ => add(&mut results, &name, &file, |bytes| bytes),
            }
        }
    }
    results
}

/// What is not as it should be, a line each. What nobody expects is litter, not a difference.
pub(crate) fn differences(expected: &Results, found: &Results) -> Vec<String> {
    let differs = |(name, bytes): (&String, &Vec<u8>)| match found.get(name) {
        None => Some(format!("{name} is missing")),
        Some(other) if other != bytes => Some(format!("{name} {}", first_difference(bytes, other))),
        Some(_) => None,
    };
    expected.iter().filter_map(differs).collect()
}

fn first_difference(expected: &[u8], found: &[u8]) -> String {
    let at = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
    let around = |bytes: &[u8]| {
        let from = at.saturating_sub(30).min(bytes.len());
        String::from_utf8_lossy(&bytes[from..(at + 30).min(bytes.len())]).into_owned()
    };
    let (lengths, texts) = ((expected.len(), found.len()), (around(expected), around(found)));
    format!("differs from byte {at} on, of {lengths:?}: {:?} became {:?}", texts.0, texts.1)
}

fn add(results: &mut Results, name: &str, path: &Path, made: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    if let Ok(bytes) = fs::read(path) {
        results.insert(name.to_owned(), made(bytes));
    }
}

fn line(bytes: Vec<u8>) -> Vec<u8> {
    let mut bytes = without_times(bytes);
    bytes.push(b'\n');
    bytes
}

/// A JSON text without what differs from run to run; what is no JSON stays as it is.
fn without_times(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
    remove_times(&mut value);
    serde_json::to_vec(&value).unwrap()
}

fn remove_times(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !TIMES.contains(&&**name));
            members.values_mut().for_each(remove_times);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_times),
        _ => {}
    }
}
