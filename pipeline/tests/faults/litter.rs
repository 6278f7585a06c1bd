//! What may lie in a work folder when all has ended; all else is litter.
//!
//! This is a list of what belongs there, not of what does not: a leftover of any name is found.

use crate::work_folder::WorkFolder;
use std::{fs, path::Path};

const RUN_FILES: [&str; 9] = [
    "backtest.json",
    "checksums.txt",
    "config.toml",
    "run.json",
    "metrics.jsonl",
    "report.json",
    "warnings.txt",
    "predictions.parquet",
    "trace.json",
];

/// What a checkpoint consists of.
pub(crate) const CHECKPOINT_FILES: [&str; 6] = [
    "model.safetensors",
    "optimizer.safetensors",
    "state.json",
    "schema.json",
    "scaler.json",
    "checksums.txt",
];

/// Everything in a work folder that should not be there, a line each.
pub(crate) fn find(work: &WorkFolder) -> Vec<String> {
    let (root, mut found) = (work.inside(), Vec::new());
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let relative = path.strip_prefix(&root).unwrap();
            let names: Vec<&str> = relative.iter().map(|name| name.to_str().unwrap()).collect();
            if !belongs(&names, path.is_dir()) {
                found.push(format!("{} was left behind", relative.display()));
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    for run in work.runs_and_folds() {
        if let Some(file) = missing(&run.join("checkpoints/last")) {
            found.push(format!("{} was left behind without {file}", run.display()));
        }
    }
    let caches = fs::read_dir(work.cache()).into_iter().flatten().map(Result::unwrap);
    let keys = caches.filter(|entry| is_key(&entry.file_name().to_string_lossy())).count();
    if keys > 1 {
        found.push(format!("{keys} cached panels of one table"));
    }
    found.sort();
    found
}

/// What of a checkpoint is not there.
pub(crate) fn missing(checkpoint: &Path) -> Option<&'static str> {
    CHECKPOINT_FILES.into_iter().find(|file| !checkpoint.join(file).is_file())
}

fn belongs(names: &[&str], is_dir: bool) -> bool {
    match (names, is_dir) {
        (["pipeline.toml"] | [".millstream", "cache", ".lock"], false) => true,
        ([".millstream"] | [".millstream", "cache"] | ["runs"], true) => true,
        ([".millstream", "cache", key], true) => is_key(key),
        ([".millstream", "cache", key, file], false) => {
            let is_shard = file.starts_with("shard-") && file.ends_with(".arrow");
            is_key(key) && (is_shard || ["lock", "manifest.json"].contains(file))
        }
        (["runs", run], true) => run.starts_with("20") || run.starts_with("backtest-20"),
        (["runs", backtest, fold, rest @ ..], _) if fold.starts_with("fold-") => {
            rest.is_empty() && is_dir || belongs(&[&["runs", backtest], rest].concat(), is_dir)
        }
        (["runs", _, file], false) => {
            RUN_FILES.contains(file) || file.starts_with("events.out.tfevents.")
        }
        (["runs", _, "checkpoints"] | ["runs", _, "checkpoints", "last" | "best"], true) => true,
        (["runs", _, "checkpoints", "last" | "best", file], false) => {
            CHECKPOINT_FILES.contains(file)
        }
        _ => false,
    }
}

fn is_key(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
