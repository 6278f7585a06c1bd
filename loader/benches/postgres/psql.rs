//! The floor that everybody has: two psql side by side, each copying half of the table to
//! /dev/null.

use crate::{
    content::Sample,
    harness::{
        Failure,
        sample::{Clock, Whose},
    },
    workload::{BenchTable, middle_page},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The program itself where Debian keeps it: the `psql` on Debian's PATH is a script, whose
/// interpreter would be measured too.
pub(crate) fn find() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = folders.into_iter().rev().chain(env::split_paths(&path));
    programs.map(|folder| folder.join("psql")).find(|program| program.is_file())
}

/// Copies both halves at once.
pub(crate) fn run(url: &str, table: BenchTable) -> Result<Sample, Failure> {
    let program = find().ok_or("psql was there a moment ago")?;
    let middle = middle_page(url, table)?;
    let clock = Clock::start(Whose::Children)?;
    let mut children = Vec::new();
    for side in ["<", ">="] {
        children.push(copy(&program, url, table, side, middle).spawn()?);
    }
    for mut child in children {
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("psql failed ({status})").into());
        }
    }
    clock.stop()
}

fn copy(program: &Path, url: &str, table: BenchTable, side: &str, middle: i64) -> Command {
    let mut command = Command::new(program);
    let table = table.name();
    // No start-up file; it might print or time things.
    command.args(["-X", "-d", url, "-c"]).stdout(Stdio::null()).arg(format!(
        "COPY (SELECT * FROM {table} WHERE ctid {side} '({middle},0)'::tid) \
         TO STDOUT (FORMAT binary)"
    ));
    command
}
