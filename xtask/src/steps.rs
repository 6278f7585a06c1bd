//! The checks that `test` and `lint` are made of, and how a list of them is run.
//!
//! Every cargo step uses `--release`, tests included: torch-sys takes minutes to compile, and with
//! one profile for everything it compiles once.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::test_python::{Environment, FIGURES, PYTORCH};
use crate::workspace::Workspace;
use crate::{memcheck, outside, parity, process, tidy, toys};

/// A check that passes or fails.
#[derive(Debug)]
pub(crate) struct Step {
    name: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Run(Command),
    Fmt,
    Tidy,
    Memcheck,
    Outside,
    Python,
    Parity,
    LeftOut(&'static Environment),
    Toys,
}

impl Step {
    /// Formatting of every file: `cargo fmt` does not see the modules that a macro declares.
    pub(crate) fn fmt() -> Self {
        Self { name: "fmt".into(), action: Action::Fmt }
    }

    /// The rules in `tidy.rs`.
    pub(crate) fn tidy() -> Self {
        Self { name: "tidy".into(), action: Action::Tidy }
    }

    /// The tests of `memcheck.rs`.
    pub(crate) fn memcheck() -> Self {
        Self { name: "memcheck".into(), action: Action::Memcheck }
    }

    /// The programs of `outside.rs`.
    pub(crate) fn outside() -> Self {
        Self { name: "outside".into(), action: Action::Outside }
    }

    /// The diffs of `toys.rs`.
    pub(crate) fn toys() -> Self {
        Self { name: "toys".into(), action: Action::Toys }
    }

    /// The Python environment that recomputes figures; unless it is wanted, that is said and no more.
    pub(crate) fn python(wanted: bool) -> Self {
        let action = if wanted { Action::Python } else { Action::LeftOut(&FIGURES) };
        Self { name: "python".into(), action }
    }

    /// The models beside their PyTorch form, likewise.
    pub(crate) fn parity(wanted: bool) -> Self {
        let action = if wanted { Action::Parity } else { Action::LeftOut(&PYTORCH) };
        Self { name: "parity".into(), action }
    }

    /// A crate built on its own, as on a machine without libtorch.
    pub(crate) fn build_without_libtorch(workspace: &Workspace, package: &str) -> Self {
        let arguments = ["build", "--release", "-p", package];
        let mut step = Self::cargo(workspace, &format!("{package} alone"), &arguments);
        if let Action::Run(command) = &mut step.action {
            command.env("LIBTORCH", "/nonexistent");
        }
        step
    }

    /// Clippy, with warnings as errors.
    pub(crate) fn clippy(workspace: &Workspace) -> Self {
        let arguments =
            ["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"];
        Self::cargo(workspace, "clippy", &arguments)
    }

    /// All tests but the doc-tests, with nextest when it is installed.
    pub(crate) fn tests(workspace: &Workspace, runner_args: &[OsString]) -> Self {
        let has_nextest = process::succeeds(workspace.cargo().args(["nextest", "--version"]));
        let arguments: &[&str] = if has_nextest {
            &["nextest", "run", "--release", "--workspace", "--no-fail-fast"]
        } else {
            &["test", "--release", "--workspace", "--lib", "--bins", "--tests", "--examples"]
        };
        let mut step = Self::cargo(workspace, "tests", arguments);
        if let Action::Run(command) = &mut step.action {
            command.args(runner_args);
        }
        step
    }

    /// The loader without what can be left out of it.
    pub(crate) fn featureless_loader(workspace: &Workspace) -> Self {
        let arguments = ["test", "--release", "-p", "millstream-loader", "--no-default-features"];
        Self::cargo(workspace, "featureless loader", &arguments)
    }

    /// The examples in the documentation, which nextest cannot run.
    pub(crate) fn doc_tests(workspace: &Workspace) -> Self {
        Self::cargo(workspace, "doc-tests", &["test", "--release", "--workspace", "--doc"])
    }

    /// The documentation, with broken links as errors.
    pub(crate) fn docs(workspace: &Workspace) -> Self {
        let arguments = ["doc", "--release", "--workspace", "--no-deps"];
        let mut step = Self::cargo(workspace, "docs", &arguments);
        if let Action::Run(command) = &mut step.action {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        step
    }

    fn cargo(workspace: &Workspace, name: &str, arguments: &[&str]) -> Self {
        let mut command = workspace.cargo();
        command.args(arguments);
        Self { name: name.to_owned(), action: Action::Run(command) }
    }

    fn by_hand(&self) -> String {
        match &self.action {
            Action::Run(command) => process::line(command),
            Action::Fmt => "git ls-files '*.rs' | xargs rustfmt --edition 2024 --check".to_owned(),
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Memcheck => "cargo xtask memcheck".to_owned(),
            Action::Outside => "cargo xtask outside".to_owned(),
            Action::Toys => "cargo xtask toys".to_owned(),
            Action::Python => "pip install what recomputes the figures".to_owned(),
            Action::Parity => "cargo xtask parity".to_owned(),
            Action::LeftOut(_) => "--no-python".to_owned(),
        }
    }

    fn run(&mut self, workspace: &Workspace) -> Result<(), Error> {
        match &mut self.action {
            Action::Run(command) => process::run(command),
            Action::Fmt => check_format(workspace),
            Action::Tidy => tidy::run(workspace),
            Action::Memcheck => memcheck::run(workspace),
            Action::Outside => outside::run(workspace),
            Action::Toys => toys::run(workspace),
            Action::Python => FIGURES.provide(workspace),
            Action::Parity => parity::run(workspace),
            Action::LeftOut(environment) => Err(environment.without("--no-python was given")),
        }
    }
}

/// Whether the rest goes on: there is no Python, which is not what is tested.
fn is_skipped(error: &Error) -> bool {
    matches!(error, Error::TestPython { .. })
}

fn check_format(workspace: &Workspace) -> Result<(), Error> {
    let files = workspace.files()?;
    let mut command = Command::new("rustfmt");
    command.current_dir(workspace.root()).args(["--edition", "2024", "--check"]);
    process::run(command.args(files.iter().filter(|path| path.ends_with(".rs"))))
}

/// Runs the steps in order until one fails, then prints how long each took.
///
/// # Errors
/// [`Error::StepFailed`], which says how to run the failed step alone.
pub(crate) fn run(workspace: &Workspace, steps: Vec<Step>) -> Result<(), Error> {
    let count = steps.len();
    let mut times = Vec::with_capacity(count);
    let mut outcome = Ok(());
    for (index, mut step) in steps.into_iter().enumerate() {
        eprintln!("\n[{}/{count}] {}: {}", index + 1, step.name, step.by_hand());
        let start = Instant::now();
        let result = step.run(workspace);
        let by_hand = step.by_hand();
        let verdict = match &result {
            Ok(()) => "ok",
            Err(error) if is_skipped(error) => "SKIPPED",
            Err(_) => "FAILED",
        };
        times.push((step.name.clone(), start.elapsed(), verdict));
        if let Err(error) = result {
            if is_skipped(&error) {
                eprintln!("SKIPPED: {}: {}", step.name, error.with_causes());
                continue;
            }
            let reason = match error {
                Error::CommandFailed { status, .. } => status.to_string(),
                other => other.with_causes(),
            };
            outcome = Err(Error::StepFailed { step: step.name, reason, by_hand });
            break;
        }
    }
    eprint!("\n{}", time_table(&times));
    outcome
}

fn time_table(times: &[(String, Duration, &str)]) -> String {
    let width = times.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    times
        .iter()
        .map(|(name, time, verdict)| {
            format!("{name:width$}  {:7.1} s  {verdict}\n", time.as_secs_f64())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn shell(name: &str, script: &str) -> Step {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Step { name: name.into(), action: Action::Run(command) }
    }

    #[test]
    fn a_failing_step_stops_the_list_and_says_how_to_run_it_alone() {
        let temp = tempfile::tempdir().unwrap();
        let mark = temp.path().join("third-ran");
        let third = format!("touch {}", mark.display());
        let steps = vec![shell("one", "true"), shell("two", "exit 7"), shell("three", &third)];
        let error = run(&Workspace::at(temp.path()), steps).unwrap_err();
        assert_eq!(
            error.with_causes(),
            "step `two` failed (exit status: 7); to run it alone: sh -c 'exit 7'"
        );
        assert_eq!(error.exit_code(), 1);
        assert!(!mark.exists());
    }

    #[test]
    fn the_list_goes_on_without_python() {
        let temp = tempfile::tempdir().unwrap();
        let mark = temp.path().join("second-ran");
        let second = shell("two", &format!("touch {}", mark.display()));
        run(&Workspace::at(temp.path()), vec![Step::parity(false), second]).unwrap();
        assert!(mark.exists());
    }

    #[test]
    fn files_that_no_module_names_are_formatted_too() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(temp.path());
        assert!(process::succeeds(Command::new("git").arg("init").arg(temp.path())));
        let check = |text, expected| {
            std::fs::write(temp.path().join("a.rs"), text).unwrap();
            assert_eq!(check_format(&workspace).is_ok(), expected, "{text}");
        };
        check("fn main() {}\n", true);
        check("fn main( ) {}\n", false);
    }

    #[test]
    fn the_build_without_libtorch_cannot_find_one() {
        let step =
            Step::build_without_libtorch(&Workspace::at(Path::new(".")), "millstream-loader");
        let expected = "LIBTORCH=/nonexistent cargo build --release -p millstream-loader";
        assert_eq!(step.by_hand(), expected);
    }

    #[test]
    fn the_table_lines_up() {
        let tenths = |count: u64| Duration::from_millis(count * 100);
        let times =
            [("fmt".to_owned(), tenths(4), "ok"), ("doc-tests".to_owned(), tenths(1234), "FAILED")];
        assert_eq!(time_table(&times), "fmt            0.4 s  ok\ndoc-tests    123.4 s  FAILED\n");
    }
}
