//! `toys`: what CONTRIBUTING.md says about adding a model, a scaler or a sink, done.
//!
//! Its diffs are applied to a copy of the workspace. Each must be one new file and one line in a
//! list; the tests of the new files must pass; and one command must go through with all of the toys
//! at once, from the toy source to the toy sink.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::flags::SetupFlags;
use crate::workspace::Workspace;
use crate::{process, seeded_target, setup};

/// Where the diffs are.
const GUIDE: &str = "CONTRIBUTING.md";

/// A run with all of them but the sink …
const TRAIN: &str = "train --quiet --set source.kind=ramp --set scale.method=maxabs \
                     --set train.model=mean_pool --set train.optimizer=sign --set train.epochs=1";

/// … and its forecasts.
const PREDICT: &str = "predict --quiet --output forecasts.tsv";

/// A diff of the guide.
#[derive(Debug, PartialEq, Eq)]
struct Toy {
    /// What it adds.
    file: String,
    diff: String,
    /// Lines that it adds to files that were there.
    lines_elsewhere: usize,
}

/// Runs the task.
///
/// # Errors
/// When a diff does not apply, is more than one file and one line, or what it adds fails.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags::default())?;
    let guide = workspace.root().join(GUIDE);
    let text = fs::read_to_string(&guide).map_err(Error::file("read", &guide))?;
    let toys = toys(&text);
    if toys.is_empty() {
        return Err(Error::Toys { problem: format!("{GUIDE} has no diffs") });
    }
    let target = seeded_target::provide(workspace, "toys")?;
    let copy = target.with_file_name("workspace");
    copy_workspace(workspace, &copy)?;
    for toy in &toys {
        if toy.lines_elsewhere != 1 {
            let problem = format!("{} takes {} lines elsewhere", toy.file, toy.lines_elsewhere);
            return Err(Error::Toys { problem });
        }
        apply(&copy, &toy.diff)?;
    }
    let cargo = |arguments: &[&str]| {
        let mut command = workspace.cargo();
        command.current_dir(&copy).env("CARGO_TARGET_DIR", &target);
        command.args(arguments);
        workspace.point_at_libtorch(&mut command);
        command
    };
    for toy in &toys {
        let package = toy.file.split('/').next().unwrap_or_default();
        let name = Path::new(&toy.file).file_stem().unwrap_or_default().to_string_lossy();
        let package = format!("millstream-{package}");
        let arguments = ["test", "--release", "-p", &package, "--lib", &format!("::{name}::")];
        let said = process::stdout_of(&mut cargo(&arguments))?;
        print!("{said}");
        if said.contains("test result: ok. 0 passed") {
            return Err(Error::Toys { problem: format!("{} has no test that ran", toy.file) });
        }
    }
    let place = target.with_file_name("run");
    fs::create_dir_all(&place).map_err(Error::file("make", &place))?;
    let manifest = copy.join("Cargo.toml");
    for arguments in [TRAIN, PREDICT] {
        let mut command = cargo(&["run", "--release", "-p", "millstream", "--manifest-path"]);
        command.arg(&manifest).arg("--").args(arguments.split_whitespace());
        process::run(command.current_dir(&place))?;
    }
    let forecasts = place.join("forecasts.tsv");
    let text = fs::read_to_string(&forecasts).map_err(Error::file("read", &forecasts))?;
    let (header, rows) = text.split_once('\n').unwrap_or_default();
    let tabs = |line: &str| line.matches('\t').count();
    if tabs(header) == 0 || rows.lines().any(|line| tabs(line) != tabs(header)) {
        return Err(Error::Toys { problem: "forecasts.tsv is not separated by tabs".into() });
    }
    eprintln!(
        "toys: {} of them, and {} forecasts by all at once",
        toys.len(),
        rows.lines().count()
    );
    Ok(())
}

/// The workspace's files as they would be committed.
fn copy_workspace(workspace: &Workspace, copy: &Path) -> Result<(), Error> {
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(Error::file("remove", copy))?;
    }
    let mut list = Command::new("git");
    list.current_dir(workspace.root());
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"]);
    let files = process::stdout_of(&mut list)?;
    for file in files.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (workspace.root().join(file), copy.join(file));
        if !from.exists() {
            continue;
        }
        let folder = to.parent().map_or_else(|| copy.to_owned(), Path::to_owned);
        fs::create_dir_all(&folder).map_err(Error::file("make", &folder))?;
        fs::copy(&from, &to).map_err(Error::file("copy", &from))?;
    }
    Ok(())
}

fn apply(copy: &Path, diff: &str) -> Result<(), Error> {
    let mut patch = Command::new("git");
    patch.current_dir(copy).args(["apply", "-"]).stdin(Stdio::piped());
    // The copy is no part of the repository around it.
    patch.env("GIT_CEILING_DIRECTORIES", copy.parent().unwrap_or(copy));
    let spawn = |source| Error::Spawn { program: "git".into(), source };
    let mut child = patch.spawn().map_err(spawn)?;
    let written = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(diff.as_bytes()));
    let status = child.wait().map_err(spawn)?;
    match written {
        Ok(()) if status.success() => Ok(()),
        _ => Err(Error::CommandFailed { command: process::line(&patch), status }),
    }
}

/// The diffs of a guide, in its order.
fn toys(guide: &str) -> Vec<Toy> {
    let blocks = guide.split("```diff\n").skip(1);
    blocks.filter_map(|block| toy(block.split("```").next().unwrap_or_default())).collect()
}

fn toy(diff: &str) -> Option<Toy> {
    let (mut added, mut lines_elsewhere, mut is_new) = (None, 0, false);
    for line in diff.lines() {
        if let Some(from) = line.strip_prefix("--- ") {
            is_new = from.starts_with("/dev/null");
        } else if let Some(to) = line.strip_prefix("+++ ") {
            if is_new {
                added = to.strip_prefix("b/").map(str::to_owned);
            }
        } else if !is_new && (line.starts_with('+') || line.starts_with('-')) {
            lines_elsewhere += 1;
        }
    }
    Some(Toy { file: added?, diff: diff.to_owned(), lines_elsewhere })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/model/src/models.rs\n+++ b/model/src/models.rs\n@@ -1,2 +1,3 @@\n a\n\
                        +b\n c\n--- /dev/null\n+++ b/model/src/models/b.rs\n@@ -0,0 +1,2 @@\n+x\n+y\n";

    #[test]
    fn a_diff_is_a_new_file_and_lines_elsewhere() {
        let guide = format!("Text\n```diff\n{DIFF}```\nand\n```\nnone\n```\n");
        let found = toys(&guide);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].file, "model/src/models/b.rs");
        assert_eq!((found[0].lines_elsewhere, found[0].diff.as_str()), (1, DIFF));
        let two = toy(&DIFF.replace("+b\n", "+b\n+d\n")).unwrap();
        assert_eq!(two.lines_elsewhere, 2);
    }

    #[test]
    fn a_diff_that_does_not_fit_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("model/src/models")).unwrap();
        let list = folder.path().join("model/src/models.rs");
        fs::write(&list, "a\nc\n").unwrap();
        apply(folder.path(), DIFF).unwrap();
        assert_eq!(fs::read_to_string(&list).unwrap(), "a\nb\nc\n");
        fs::write(&list, "something else\n").unwrap();
        apply(folder.path(), DIFF).unwrap_err();
    }
}
