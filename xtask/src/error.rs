//! What can go wrong in a task, and the exit code that tells callers which kind it was.
//!
//! 2 means that the machine or the call must change first (a missing program, a refused
//! question); 1 means that the task ran and failed. Nothing here prints.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error("no millstream workspace here or above; run `cargo xtask` inside a clone")]
    NoWorkspace,

    #[error(transparent)]
    Prerequisite(#[from] crate::prerequisites::Missing),

    #[error(
        "LIBTORCH is `{path}`, not the absolute path of a folder with include/ and lib/; \
         point it at an unpacked libtorch or unset it"
    )]
    NotALibtorch { path: PathBuf },

    #[error("cannot tell where to cache wheels; set HOME or XDG_CACHE_HOME")]
    NoCacheFolder,

    #[error(
        "{file} arrived with sha256 {found} instead of {expected}; \
         the package index serves another file than the pinned one"
    )]
    WrongHash { file: &'static str, found: String, expected: &'static str },

    #[error("pip succeeded but did not save {file}")]
    NotDownloaded { file: &'static str },

    #[error("cannot read {path} as a wheel")]
    ReadWheel { path: PathBuf, source: zip::result::ZipError },

    #[error("the pinned wheels have no {entry}")]
    MissingFromWheels { entry: &'static str },

    #[error("pip installed no torch in {venv}; remove that folder and run `cargo xtask setup`")]
    NoTorchInVenv { venv: PathBuf },
    /// A Python environment of the tests is not to be had.
    #[error("{purpose}: {reason}")]
    TestPython { purpose: &'static str, reason: String },

    #[error("cannot start {program}")]
    Spawn { program: String, source: io::Error },

    #[error("`{command}` failed ({status})")]
    CommandFailed { command: String, status: ExitStatus },

    #[error("cannot {action} {path}")]
    File { action: &'static str, path: PathBuf, source: io::Error },

    #[error("cannot read {what}")]
    Json { what: String, source: serde_json::Error },

    #[error("step `{step}` failed ({reason}); to run it alone: {by_hand}")]
    StepFailed { step: String, reason: String, by_hand: String },

    #[error("the toys of CONTRIBUTING.md: {problem}")]
    Toys { problem: String },

    #[error("the program {program} outside of the workspace: {problem}")]
    Outside { program: &'static str, problem: String },

    #[error("tidy found {count} problem(s), listed above")]
    Untidy { count: usize },

    #[error("{path} has schema {found}, this xtask writes and compares schema {expected}")]
    ReportSchema { path: PathBuf, found: u32, expected: u32 },

    #[error("{count} stable case(s) fell more than {percent:.0} % behind {old}, listed above")]
    Slower { count: usize, percent: f64, old: PathBuf },

    #[error("there is no trial `{unknown}`; these are: {names}")]
    NoSuchTrial { unknown: String, names: String },

    #[error("{count} trial(s) broke something or did not run; what they printed is in {logs}")]
    Broke { count: usize, logs: PathBuf },

    #[error("README.md has no place for the figures; it starts with the line {begin}")]
    NoReportSection { begin: &'static str },

    #[error("no terminal to ask on; pass --yes to remove without asking")]
    CannotAsk,
}

impl Error {
    /// The process exit code of this failure.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoWorkspace
            | Self::Prerequisite(_)
            | Self::NotALibtorch { .. }
            | Self::NoCacheFolder
            | Self::NoSuchTrial { .. }
            | Self::CannotAsk => 2,
            _ => 1,
        }
    }

    /// The message followed by its causes, on one line.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }

    /// For `map_err` on file operations; `action` is a verb, as in "cannot open a.json".
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prerequisites::Missing;

    #[test]
    fn causes_are_told_once_and_in_order() {
        let error = Error::file("open", "a.json")(io::Error::other("disk on fire"));
        assert_eq!(error.with_causes(), "cannot open a.json: disk on fire");
    }

    #[test]
    fn a_missing_prerequisite_exits_2_with_one_line_and_a_failed_task_1() {
        let missing = Error::from(Missing::Python);
        assert_eq!(missing.exit_code(), 2);
        assert_eq!(missing.with_causes(), Missing::Python.to_string());
        assert_eq!(Error::Untidy { count: 1 }.exit_code(), 1);
    }
}
