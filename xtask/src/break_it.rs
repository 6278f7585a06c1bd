//! `break`: everything that is broken on purpose, all of it.
//!
//! The tests themselves are in the suite, where each tries a part; a variable makes it try all. What
//! they printed is kept in target/break, and a table says what was tried and what was found. A trial
//! that fails does not keep the others from running.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::flags::{BreakFlags, SetupFlags};
use crate::workspace::Workspace;
use crate::{process, setup};

/// A test of `pipeline/tests` that can try more than it does in the suite.
struct Trial {
    name: &'static str,
    /// The test program.
    program: &'static str,
    test: &'static str,
    /// The variable that makes it try all.
    variable: (&'static str, &'static str),
}

const fn trial(
    name: &'static str,
    program: &'static str,
    test: &'static str,
    variable: (&'static str, &'static str),
) -> Trial {
    Trial { name, program, test, variable }
}

const ALL_FAULTS: (&str, &str) = ("MILLSTREAM_TEST_FAULTS", "all");

const TRIALS: [Trial; 12] = [
    trial("train", "faults", "every_call::training_survives_a_fault_at_any_call", ALL_FAULTS),
    trial("resume", "faults", "every_call::resuming_survives_a_fault_at_any_call", ALL_FAULTS),
    trial("import", "faults", "every_call::importing_survives_a_fault_at_any_call", ALL_FAULTS),
    trial("predict", "faults", "every_call::predicting_survives_a_fault_at_any_call", ALL_FAULTS),
    trial(
        "at-once",
        "faults",
        "at_once::eight_at_once_lose_nothing",
        ("MILLSTREAM_TEST_ROUNDS", "50"),
    ),
    trial(
        "silent-server",
        "faults",
        "frozen::a_silent_server_keeps_nobody_from_stopping",
        ("MILLSTREAM_TEST_FROZEN", "100"),
    ),
    trial(
        "flips",
        "command",
        "flips::every_flipped_byte_is_noticed_or_without_effect",
        ("MILLSTREAM_TEST_FLIPS", "1000"),
    ),
    trial(
        "interrupts",
        "command",
        "interrupts::two_signals_at_any_moment_end_it_by_the_documented_code",
        ("MILLSTREAM_TEST_INTERRUPTS", "200"),
    ),
    trial(
        "secrets",
        "command",
        "secrets::a_password_is_in_no_output_and_no_file",
        ("MILLSTREAM_TEST_SECRETS", "100"),
    ),
    trial(
        "table",
        "command",
        "table_crashes::a_crash_while_it_is_written_leaves_the_old_table_or_the_new",
        ("MILLSTREAM_TEST_TABLE_CRASHES", "100"),
    ),
    trial(
        "extremes",
        "settings",
        "extremes::extremes_work_or_are_refused_in_one_line",
        ("MILLSTREAM_TEST_EXTREMES", "all"),
    ),
    trial(
        "settings",
        "settings",
        "random::random_settings_end_well_or_in_one_line",
        ("MILLSTREAM_TEST_SETTINGS", "0..1000"),
    ),
];

/// What came of a trial.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    name: &'static str,
    verdict: Verdict,
    /// What the test says of itself: how much was tried, and how long it took.
    lines: Vec<String>,
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Held,
    Broke,
    /// The test was not found under its name, or did not run.
    NotRun,
}

/// Runs the task.
///
/// # Errors
/// [`Error::Broke`] when a trial found something or did not run, after all have been tried.
pub(crate) fn run(workspace: &Workspace, flags: &BreakFlags) -> Result<(), Error> {
    let names: Vec<&str> = TRIALS.iter().map(|trial| trial.name).collect();
    if let Some(unknown) = flags.only.iter().find(|name| !names.contains(&name.as_str())) {
        let (unknown, names) = (unknown.clone(), names.join(", "));
        return Err(Error::NoSuchTrial { unknown, names });
    }
    setup::run(workspace, &SetupFlags { with_postgres: true })?;
    let logs = workspace.metadata()?.target_directory.join("break");
    fs::create_dir_all(&logs).map_err(Error::file("create", &logs))?;
    let wanted =
        |trial: &&Trial| flags.only.is_empty() || flags.only.iter().any(|name| name == trial.name);
    let mut outcomes = Vec::new();
    for trial in TRIALS.iter().filter(wanted) {
        let log = logs.join(format!("{}.log", trial.name));
        eprintln!("break: {}: {}", trial.name, process::line(&trial.command(workspace)));
        outcomes.push(trial.run(workspace, &log)?);
    }
    print!("\n{}", table(&outcomes));
    let broke = outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Held).count();
    if broke == 0 { Ok(()) } else { Err(Error::Broke { count: broke, logs }) }
}

impl Trial {
    fn command(&self, workspace: &Workspace) -> Command {
        let mut command = workspace.cargo();
        // Not nextest, which ends what takes longer than a test of the suite may.
        command.args(["test", "--release", "-p", "millstream", "--test", self.program, "--"]);
        command.args(["--exact", self.test, "--nocapture"]).env(self.variable.0, self.variable.1);
        command
    }

    fn run(&self, workspace: &Workspace, log: &Path) -> Result<Outcome, Error> {
        let file = File::create(log).map_err(Error::file("create", log))?;
        let begun = Instant::now();
        let mut command = self.command(workspace);
        let ended = process::run(command.stdout(file));
        let said = fs::read_to_string(log).map_err(Error::file("read", log))?;
        Ok(self.outcome(ended.is_ok(), &said, begun.elapsed()))
    }

    fn outcome(&self, succeeded: bool, said: &str, took: Duration) -> Outcome {
        let about = |line: &&str| line.starts_with("TRIED ") || line.starts_with("TIMES ");
        let lines = said.lines().filter(about).map(str::to_owned).collect();
        // A test that is not there succeeds, and one that cannot be built says nothing.
        let verdict = match (succeeded, said.contains("running 1 test\n")) {
            (_, false) => Verdict::NotRun,
            (true, true) => Verdict::Held,
            (false, true) => Verdict::Broke,
        };
        Outcome { name: self.name, verdict, lines, seconds: took.as_secs() }
    }
}

fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for Outcome { name, verdict, lines, seconds } in outcomes {
        let verdict = match verdict {
            Verdict::Held => "held",
            Verdict::Broke => "BROKE",
            Verdict::NotRun => "NOT RUN",
        };
        let words = |line: &String| line.split_once(' ').map_or("", |(_, rest)| rest).to_owned();
        let found = lines.iter().map(words).collect::<Vec<_>>().join("; ");
        text += format!("{name:14} {seconds:6} s  {verdict:8} {found}").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_there_has_not_held() {
        let check = |succeeded, said: &str, expected| {
            let outcome = TRIALS[0].outcome(succeeded, said, Duration::ZERO);
            assert_eq!(outcome.verdict, expected, "{said}");
        };
        check(true, "\nrunning 0 tests\n", Verdict::NotRun);
        check(false, "", Verdict::NotRun);
        check(true, "\nrunning 1 test\nTRIED 3 faults in train: 0 found\n", Verdict::Held);
        check(false, "\nrunning 1 test\nTRIED 3 faults in train: 1 found\n", Verdict::Broke);
    }

    #[test]
    fn the_table_says_what_was_tried_and_found() {
        let said = "running 1 test\ntrain kill@1: signal 9\nTRIED 9 faults in train: 1 found\n";
        let mut outcomes = vec![TRIALS[0].outcome(false, said, Duration::from_secs(70))];
        outcomes.push(TRIALS[4].outcome(true, "running 0 tests", Duration::ZERO));
        assert_eq!(
            table(&outcomes),
            "train              70 s  BROKE    9 faults in train: 1 found\n\
             at-once             0 s  NOT RUN\n"
        );
    }

    #[test]
    fn a_trial_can_be_run_by_hand() {
        let command = TRIALS[4].command(&Workspace::at(Path::new(".")));
        assert_eq!(
            process::line(&command),
            "MILLSTREAM_TEST_ROUNDS=50 cargo test --release -p millstream --test faults -- \
             --exact at_once::eight_at_once_lose_nothing --nocapture"
        );
    }
}
