//! [`Case`]: one call of a command goes wrong in one way, and what must hold after it.

use crate::{
    ending, litter,
    results::{self, Results},
    subjects::{Subject, results_in},
    work_folder::WorkFolder,
};
use fault_injector::{Call, Fault};
use std::{fmt, path::PathBuf};

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    /// The number of the call, from 1.
    pub(crate) at: usize,
    pub(crate) fault: Fault,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fault.name(), self.at)
    }
}

/// A work folder in which a command is about to go wrong, again and again.
pub(crate) struct Stage {
    pub(crate) work: WorkFolder,
    pub(crate) subject: &'static Subject,
    pub(crate) args: Vec<String>,
    /// What there is when nothing goes wrong.
    pub(crate) expected: Results,
}

impl Stage {
    /// Does it once undisturbed, and makes what the command needs.
    pub(crate) fn new(subject: &'static Subject) -> Result<Self, String> {
        let work = WorkFolder::new();
        work.keep();
        (subject.undisturbed)(&work)?;
        let expected = results_in(&work);
        let litter = litter::find(&work);
        if !litter.is_empty() || expected.is_empty() {
            return Err(format!("undisturbed: {} results, {litter:?}", expected.len()));
        }
        work.put_back();
        (subject.prepare)(&work)?;
        work.keep();
        let args = (subject.args)(&work)?;
        Ok(Stage { work, subject, args, expected })
    }

    fn args(&self) -> Vec<&str> {
        self.args.iter().map(String::as_str).collect()
    }

    /// The calls of the command. Watched, it must do what it does undisturbed.
    pub(crate) fn calls(&self) -> Result<Vec<Call>, String> {
        let calls = self.work.count(&self.args())?;
        self.check_end()?;
        self.work.put_back();
        Ok(calls)
    }

    /// Lets one call go wrong; says how the command ended, or what was not as it should be.
    pub(crate) fn run(&self, case: Case) -> Result<String, String> {
        self.work.put_back();
        let mut standing = self.checkpoints();
        let (ran, calls) = self.work.inject(&self.args(), case.at, case.fault)?;
        let fired = calls.last().is_some_and(|call| call.number >= case.at);
        let at = calls.iter().find(|call| call.number == case.at);
        let call = match at {
            Some(call) => format!("{} {}", call.name, call.path.display()),
            None => "no such call".to_owned(),
        };
        let with_call = |why: String| format!("{call}\n{why}");
        ending::check(&ran, case.fault, fired).map_err(with_call)?;
        standing.extend(put_in_place(&calls, case.at));
        self.check_standing(&standing)
            .map_err(|why| with_call(format!("after the fault: {why}\n{ran}")))?;
        (self.subject.next)(&self.work)
            .map_err(|why| with_call(format!("the next run: {why}\nafter {ran}")))?;
        self.check_end().map_err(|why| with_call(format!("{why}\nafter {ran}")))?;
        Ok(match ran.code {
            Some(code) => format!("{code} at {call}"),
            None => format!("signal {} at {call}", ran.signal.unwrap_or(0)),
        })
    }

    /// The same bits as undisturbed, and nothing besides.
    pub(crate) fn check_end(&self) -> Result<(), String> {
        let mut wrong = results::differences(&self.expected, &results_in(&self.work));
        wrong.extend(litter::find(&self.work));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
    }

    /// The checkpoints that are there.
    fn checkpoints(&self) -> Vec<PathBuf> {
        let runs = self.work.runs_and_folds().into_iter();
        let both = runs.flat_map(|run| ["last", "best"].map(|it| run.join("checkpoints").join(it)));
        both.filter(|path| path.exists()).collect()
    }

    /// What was there stays, and what has its name is whole.
    pub(crate) fn check_standing(&self, checkpoints: &[PathBuf]) -> Result<(), String> {
        let here = self.checkpoints();
        for checkpoint in checkpoints.iter().chain(&here) {
            if let Some(file) = litter::missing(checkpoint) {
                return Err(format!("{} has no {file}", checkpoint.display()));
            }
        }
        let found = results_in(&self.work);
        // A run that is under way has other weights than one that is complete; a panel and
        // forecasts are what they are, as soon as they have their name.
        for (name, bytes) in &found {
            let is_final = name.ends_with("predictions.parquet") || name.ends_with(".arrow");
            if is_final && self.expected.get(name) != Some(bytes) {
                return Err(format!("{name} has its name and is not whole"));
            }
        }
        Ok(())
    }
}

/// The checkpoints that had been put in place before a call.
fn put_in_place(calls: &[Call], before: usize) -> Vec<PathBuf> {
    let done = calls.iter().filter(|call| call.number < before && call.name == "rename");
    let is_checkpoint =
        |path: &&PathBuf| path.ends_with("checkpoints/last") || path.ends_with("checkpoints/best");
    done.map(|call| &call.path).filter(is_checkpoint).cloned().collect()
}
