//! The commands that are broken, each with what comes before and what a person does after.

use crate::{
    ending,
    results::{self, Results},
    work_folder::{Ran, WorkFolder},
};
use fault_injector::{Call, Fault};
use std::path::Path;

/// A command, and what is around it.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Does all of it in an empty work folder, without a fault.
    pub(crate) undisturbed: fn(&WorkFolder) -> Result<(), String>,
    /// Makes what the command needs.
    pub(crate) prepare: fn(&WorkFolder) -> Result<(), String>,
    /// The command that goes wrong.
    pub(crate) args: fn(&WorkFolder) -> Result<Vec<String>, String>,
    /// What a person does next, until all is there.
    pub(crate) next: fn(&WorkFolder) -> Result<(), String>,
}

/// Into an empty cache and an empty folder of runs.
pub(crate) const TRAIN: Subject = Subject {
    name: "train",
    undisturbed: |work| work.succeed(&["train"]).map(drop),
    prepare: |_| Ok(()),
    args: |_| Ok(vec!["train".into()]),
    next: |work| match work.runs().last() {
        Some(run) => go_on(work, run),
        None => work.succeed(&["train"]).map(drop),
    },
};

/// A run that was interrupted in its second epoch.
pub(crate) const RESUME: Subject = Subject {
    name: "resume",
    undisturbed: TRAIN.undisturbed,
    prepare: interrupted,
    args: |work| Ok(vec!["train".into(), "--resume".into(), text(&work.run_dir()?)]),
    next: |work| {
        let ran = work.run(&["train", "--resume", &text(&work.run_dir()?)])?;
        if is_resumed(&ran) { Ok(()) } else { Err(format!("cannot be resumed: {ran}")) }
    },
};

/// Over a panel that is cached already.
pub(crate) const IMPORT: Subject = Subject {
    name: "import",
    undisturbed: |work| work.succeed(&["import"]).map(drop),
    prepare: |work| work.succeed(&["import"]).map(drop),
    args: |_| Ok(vec!["import".into()]),
    next: |work| {
        work.succeed(&["import"])?;
        work.succeed(&["import", "--verify"]).map(drop)
    },
};

/// With a run that has no forecasts yet.
pub(crate) const PREDICT: Subject = Subject {
    name: "predict",
    undisturbed: |work| {
        work.succeed(&["train"])?;
        work.succeed(&["predict"]).map(drop)
    },
    prepare: |work| work.succeed(&["train"]).map(drop),
    args: |_| Ok(vec!["predict".into()]),
    next: |work| work.succeed(&["predict"]).map(drop),
};

/// Of two folds, into an empty folder of runs, over a panel that is cached already.
pub(crate) const BACKTEST: Subject = Subject {
    name: "backtest",
    undisturbed: |work| work.succeed(&FOLDS).map(drop),
    prepare: |work| work.succeed(&["import"]).map(drop),
    args: |_| Ok(FOLDS.map(str::to_owned).to_vec()),
    next: |work| match work.runs().last() {
        Some(backtest) => {
            let ran = work.run(&["backtest", "--resume", &text(backtest)])?;
            match is_resumed(&ran) {
                true => Ok(()),
                // It was killed before it had said what it is; the next clears it away.
                false if !backtest.join("checksums.txt").exists() => work.succeed(&FOLDS).map(drop),
                false => Err(format!("cannot be resumed: {ran}")),
            }
        }
        None => work.succeed(&FOLDS).map(drop),
    },
};

const FOLDS: [&str; 7] =
    ["backtest", "--set", "split.train=0.5", "--set", "split.folds=2", "--set", "train.epochs=1"];

/// What there is to compare: the cached panel and the newest run.
pub(crate) fn results_in(work: &WorkFolder) -> Results {
    let mut results = results::of_cache(&work.cache());
    results.extend(work.runs().last().map(|run| results::of_run(run)).unwrap_or_default());
    results
}

/// Goes on with a run, or trains anew where it had saved nothing.
fn go_on(work: &WorkFolder, run: &Path) -> Result<(), String> {
    let ran = work.run(&["train", "--resume", &text(run)])?;
    if is_resumed(&ran) {
        return Ok(());
    }
    let said = ending::errors(&ran)?;
    if ran.code != Some(2) || said.len() != 1 {
        return Err(format!("neither resumed nor refused: {ran}"));
    }
    for which in ["last", "best", ".last.old", ".best.old"] {
        if run.join("checkpoints").join(which).exists() {
            return Err(format!("lost, with checkpoints/{which} in it: {ran}"));
        }
    }
    work.succeed(&["train"]).map(drop)
}

/// Whether a run is complete now; what is in it is compared elsewhere.
fn is_resumed(ran: &Ran) -> bool {
    let finished = ran.code == Some(2) && ran.stderr.contains("has finished");
    ran.code == Some(0) || finished
}

/// Interrupts a training in its second epoch, by the call that writes a line of it.
fn interrupted(work: &WorkFolder) -> Result<(), String> {
    let calls = work.count(&["train"])?;
    work.put_back();
    let is_line = |call: &&Call| call.is_write() && call.path.ends_with("metrics.jsonl");
    let lines: Vec<&Call> = calls.iter().filter(is_line).collect();
    // The last two are the end of the second epoch and a line of its steps.
    let at = lines[lines.len() - 4].number;
    let (ran, _) = work.inject(&["train"], at, Fault::Interrupt)?;
    if ran.code == Some(5) && ran.stderr.contains("--resume") {
        Ok(())
    } else {
        Err(format!("was to be interrupted: {ran}"))
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
