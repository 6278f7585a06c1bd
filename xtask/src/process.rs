//! Running other programs: to the end, for their output, or in our place.
//!
//! Never goes through a shell, and never catches signals: a Ctrl-C on the terminal reaches the
//! child by itself.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Runs a command to its end; what it prints goes where ours goes.
///
/// # Errors
/// When it cannot be started or exits with anything but success.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| not_started(command, source))?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::CommandFailed { command: line(command), status })
    }
}

/// Like [`run`], with the child's stdout on our stderr, for a caller whose stdout is a result.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_on_stderr(command: &mut Command) -> Result<(), Error> {
    run(command.stdout(Stdio::from(io::stderr())))
}

/// Runs a command and returns what it printed; its stderr is ours.
///
/// # Errors
/// As [`run`].
pub(crate) fn stdout_of(command: &mut Command) -> Result<String, Error> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|source| not_started(command, source))?;
    if !output.status.success() {
        return Err(Error::CommandFailed { command: line(command), status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a command exists and succeeds; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Replaces this process by the command: signals and the exit code are then the child's own.
pub(crate) fn replace_by(command: &mut Command) -> Error {
    use std::os::unix::process::CommandExt as _;
    let source = command.exec();
    not_started(command, source)
}

/// Looks a program up on a search path of the form of `$PATH`.
pub(crate) fn find_program(program: &str, search_path: &OsStr) -> Option<PathBuf> {
    if program.contains('/') {
        return is_executable(Path::new(program)).then(|| program.into());
    }
    env::split_paths(search_path)
        .map(|folder| folder.join(program))
        .find(|candidate| is_executable(candidate))
}

/// The command as one would type it: its own variables, then the program without its folder.
pub(crate) fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    variables.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn not_started(command: &Command, source: io::Error) -> Error {
    Error::Spawn { program: command.get_program().to_string_lossy().into_owned(), source }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_status() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c 'exit 3'` failed (exit status: 3)");
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_a_success() {
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
        let error = run(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start no-such-program-anywhere");
    }

    #[test]
    fn only_executable_files_count_as_programs() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("c++"), "").unwrap();
        assert_eq!(find_program("c++", temp.path().as_os_str()), None);

        let all = env::join_paths([temp.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
        let shell = find_program("sh", &all).unwrap();
        assert!(shell.is_absolute());
        assert_eq!(find_program(shell.to_str().unwrap(), OsStr::new("")), Some(shell));
    }

    #[test]
    fn a_command_line_can_be_pasted_back() {
        let mut command = Command::new("/opt/bin/cargo");
        command.args(["bench", "--bench", "*", "it's"]).env("FLAGS", "-D warnings");
        assert_eq!(line(&command), r"FLAGS='-D warnings' cargo bench --bench '*' 'it'\''s'");
    }
}
