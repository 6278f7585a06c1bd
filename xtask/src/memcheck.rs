//! `memcheck`: the tests of the code that handles raw memory, under valgrind.
//!
//! Builds the test programs of these packages as every other step does, and runs each under
//! memcheck. Memory that is used before it is written or after it was freed, and memory that is
//! lost, fail the task. Miri and the sanitizers would need another toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;
use crate::flags::SetupFlags;
use crate::prerequisites::{self, Missing};
use crate::workspace::Workspace;
use crate::{debian, process, setup};

/// Test programs, as cargo is asked for them, and which of their tests: the tests of unsafe code
/// that need no server.
const TESTS: [(&[&str], &str); 2] = [
    (&["-p", "millstream-prefetch", "-p", "fake-cuda", "--lib", "--tests"], ""),
    // Tensors over a batch's memory. The rest of the trainer is libtorch's memory, not ours.
    (&["-p", "millstream-model", "--lib"], "tensor::"),
];

/// Valgrind runs threads one at a time and some fifty times slower: a test that repeats itself a
/// million times repeats itself this often.
const REUSES: (&str, &str) = ("MILLSTREAM_TEST_REUSES", "2000");

/// Runs the task.
///
/// # Errors
/// [`Missing::Valgrind`] when there is none and it cannot be installed from here; otherwise when a
/// test fails or memcheck finds something.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    provide()?;
    setup::run(workspace, &SetupFlags::default())?;
    let mut clean = 0;
    for (wanted, filter) in TESTS {
        for program in test_programs(workspace, wanted)? {
            eprintln!("memcheck: {}", program.display());
            process::run(&mut memcheck(&program, filter))?;
            clean += 1;
        }
    }
    eprintln!("memcheck: {clean} test programs are clean");
    Ok(())
}

fn provide() -> Result<(), Error> {
    let is_present = || process::find_program("valgrind", &prerequisites::search_path()).is_some();
    if is_present() {
        return Ok(());
    }
    if debian::can_install() {
        eprintln!("memcheck: installing valgrind");
        debian::install("valgrind")?;
    }
    if is_present() { Ok(()) } else { Err(Missing::Valgrind.into()) }
}

fn memcheck(program: &Path, filter: &str) -> Command {
    let mut command = Command::new("valgrind");
    command.args([
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
        // Threads that spin must not keep the others from running.
        "--fair-sched=yes",
    ]);
    command.arg(program).arg("--test-threads=1").env(REUSES.0, REUSES.1);
    if !filter.is_empty() {
        command.arg(filter);
    }
    command
}

/// What cargo says of an artefact that it has built.
#[derive(Debug, Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

fn test_programs(workspace: &Workspace, wanted: &[&str]) -> Result<Vec<PathBuf>, Error> {
    let mut command = workspace.cargo();
    command.args(["test", "--release", "--no-run", "--message-format=json-render-diagnostics"]);
    command.args(wanted);
    parse(&process::stdout_of(&mut command)?)
}

fn parse(messages: &str) -> Result<Vec<PathBuf>, Error> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line)
            .map_err(|source| Error::Json { what: "cargo's messages".into(), source })?;
        if message.profile.is_some_and(|profile| profile.test) {
            programs.extend(message.executable);
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn only_test_programs_are_checked() {
        let messages = r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"a"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":"target/b"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":null}
{"reason":"build-finished","success":true}"#;
        assert_eq!(parse(messages).unwrap(), [Path::new("target/b")]);
        assert!(parse("not JSON").is_err());
    }

    #[test]
    fn a_finding_fails_the_program_and_long_tests_are_short() {
        let command = memcheck(Path::new("target/b"), "");
        let arguments: Vec<&OsStr> = command.get_args().collect();
        assert!(arguments.contains(&OsStr::new("--error-exitcode=99")));
        assert!(process::line(&command).starts_with("MILLSTREAM_TEST_REUSES=2000 valgrind"));
    }
}
