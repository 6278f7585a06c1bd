//! A folder to run the `millstream` command in, as a user does.

use serde_json::Value;
use std::{
    path::PathBuf,
    process::{Command, Output},
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
