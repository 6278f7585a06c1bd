//! What must be on the machine before anything can be fetched or built.
//!
//! Only looks; it installs nothing. Each missing piece has one line that says what to do.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::process;

/// Something the machine lacks, with what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error(
        "set-up knows no libtorch for {os} on {arch}, only for linux on x86_64; \
         set LIBTORCH to a libtorch 2.13.0 of your own"
    )]
    Platform { os: &'static str, arch: &'static str },

    #[error(
        "no C++ compiler; install one (Debian, Ubuntu: apt-get install g++; \
         Fedora: dnf install gcc-c++) or set CXX"
    )]
    Compiler,

    #[error("CXX is `{cxx}`, which is not a program; install it or unset CXX")]
    NamedCompiler { cxx: String },

    #[error("there is {found} but no `c++`, which the build calls; set CXX={found}")]
    CompilerName { found: &'static str },

    #[error(
        "no python3, which fetches libtorch; install it (Debian, Ubuntu: \
         apt-get install python3 python3-pip; Fedora: dnf install python3-pip) or set LIBTORCH"
    )]
    Python,

    #[error(
        "python3 has no pip, which fetches libtorch; install it (Debian, Ubuntu: \
         apt-get install python3-pip; Fedora: dnf install python3-pip) or set LIBTORCH"
    )]
    Pip,

    #[error(
        "no python3, which the peers run in; install it (Debian, Ubuntu: \
         apt-get install python3 python3-venv; Fedora: dnf install python3)"
    )]
    PeersPython,

    #[error(
        "no PostgreSQL server programs (initdb, postgres) for the tests; install them \
         (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server) \
         or set MILLSTREAM_TEST_POSTGRES_URL to a server that the tests may use"
    )]
    Postgres,

    #[error(
        "no valgrind, which checks the use of memory; install it \
         (Debian, Ubuntu: apt-get install valgrind; Fedora: dnf install valgrind)"
    )]
    Valgrind,
}

/// Checks that there is a C++ compiler, which every build of the trainer calls.
///
/// # Errors
/// The [`Missing`] that says what to install or set.
pub(crate) fn compiler() -> Result<(), Missing> {
    find_compiler(env::var("CXX").ok().as_deref(), &search_path())
}

/// Checks that the pinned wheels fit this machine.
///
/// # Errors
/// [`Missing::Platform`] when they do not.
pub(crate) fn platform() -> Result<(), Missing> {
    fits(env::consts::OS, env::consts::ARCH)
}

/// Finds a python3 that has pip.
///
/// # Errors
/// [`Missing::Python`] or [`Missing::Pip`].
pub(crate) fn python_with_pip() -> Result<PathBuf, Missing> {
    let python = process::find_program("python3", &search_path()).ok_or(Missing::Python)?;
    if !process::succeeds(Command::new(&python).arg("--version")) {
        return Err(Missing::Python);
    }
    if !process::succeeds(Command::new(&python).args(["-m", "pip", "--version"])) {
        return Err(Missing::Pip);
    }
    Ok(python)
}

/// The folders that programs are looked up in.
pub(crate) fn search_path() -> OsString {
    env::var_os("PATH").unwrap_or_default()
}

fn fits(os: &'static str, arch: &'static str) -> Result<(), Missing> {
    match (os, arch) {
        ("linux", "x86_64") => Ok(()),
        _ => Err(Missing::Platform { os, arch }),
    }
}

fn find_compiler(cxx: Option<&str>, search_path: &OsStr) -> Result<(), Missing> {
    let exists = |program: &str| process::find_program(program, search_path).is_some();
    if let Some(cxx) = cxx.filter(|cxx| !cxx.trim().is_empty()) {
        // CXX may hold a launcher and flags, as in `ccache g++ -m64`.
        let program = cxx.split_whitespace().next().unwrap_or(cxx);
        return if exists(program) {
            Ok(())
        } else {
            Err(Missing::NamedCompiler { cxx: cxx.to_owned() })
        };
    }
    if exists("c++") {
        return Ok(());
    }
    // Not an alternative but an advice: the build looks for `c++` or CXX, nothing else.
    match ["g++", "clang++"].into_iter().find(|name| exists(name)) {
        Some(found) => Err(Missing::CompilerName { found }),
        None => Err(Missing::Compiler),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn check(programs: &[&str], cxx: Option<&str>, expected: &Result<(), Missing>) {
        let temp = tempfile::tempdir().unwrap();
        for program in programs {
            let path = temp.path().join(program);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(&find_compiler(cxx, temp.path().as_os_str()), expected);
    }

    #[test]
    fn the_compiler_is_what_the_build_will_call() {
        check(&["c++"], None, &Ok(()));
        check(&["c++"], Some(""), &Ok(()));
        check(&["g++-14"], Some("g++-14"), &Ok(()));
        check(&["ccache"], Some("ccache g++ -m64"), &Ok(()));
        check(&[], None, &Err(Missing::Compiler));
        check(&["clang++"], None, &Err(Missing::CompilerName { found: "clang++" }));
        check(&["c++"], Some("icpx"), &Err(Missing::NamedCompiler { cxx: "icpx".into() }));
    }

    #[test]
    fn only_the_platform_of_the_wheels_fits() {
        assert_eq!(fits("linux", "x86_64"), Ok(()));
        let expected = Missing::Platform { os: "macos", arch: "aarch64" };
        assert_eq!(fits("macos", "aarch64"), Err(expected));
    }

    #[test]
    fn every_message_is_one_line_that_says_what_to_do() {
        let all = [
            Missing::Compiler,
            Missing::Python,
            Missing::Pip,
            Missing::PeersPython,
            Missing::Postgres,
        ];
        for missing in all {
            let text = missing.to_string();
            assert!(text.contains("install") && !text.contains('\n'), "{text}");
        }
    }
}
