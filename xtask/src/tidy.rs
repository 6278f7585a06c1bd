//! `tidy`: the rules of this workspace that no compiler checks.
//!
//! This file gathers the input and prints; the rules are pure functions in `tidy/`, one file per
//! subject. Nothing is fixed automatically.

mod dependencies;
mod packages;
mod sources;

use std::fmt;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::process;
use crate::workspace::Workspace;

pub(crate) use dependencies::WITHOUT_LIBTORCH;

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    /// A file, with a line where there is one, or a package.
    place: String,
    rule: &'static str,
    advice: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.rule, self.advice)
    }
}

/// Runs the task.
///
/// # Errors
/// [`Error::Untidy`] when a rule is broken; the problems are then on stderr.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let sources = read_sources(workspace)?;
    for source in &sources {
        if let Some(note) = sources::size_note(source) {
            eprintln!("note: {note}");
        }
    }

    let mut problems: Vec<_> = sources.iter().flat_map(sources::check).collect();
    let packages = workspace.metadata()?.packages;
    problems.extend(packages::check(&packages, Path::is_file));
    problems.extend(dependencies::check(&packages));
    for package in WITHOUT_LIBTORCH {
        let tree = dependency_tree(workspace, package)?;
        problems.extend(dependencies::check_tree(package, &tree));
    }
    problems.extend(dependencies::check_featureless(&featureless_loader(workspace)?));

    for problem in &problems {
        eprintln!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(Error::Untidy { count }),
    }
}

/// Every package that `package` needs, for itself, its build scripts and its tests.
fn dependency_tree(workspace: &Workspace, package: &str) -> Result<String, Error> {
    let mut command = workspace.cargo();
    command.args(["tree", "--package", package, "--edges", "normal,build,dev", "--prefix", "none"]);
    process::stdout_of(&mut command)
}

/// Every package that a loader without its features needs.
fn featureless_loader(workspace: &Workspace) -> Result<String, Error> {
    let mut command = workspace.cargo();
    command.args(["tree", "--package", "millstream-loader", "--no-default-features"]);
    command.args(["--edges", "normal,build", "--prefix", "none"]);
    process::stdout_of(&mut command)
}

/// All text files that are or could be committed.
fn read_sources(workspace: &Workspace) -> Result<Vec<sources::SourceFile>, Error> {
    let mut files = Vec::new();
    for path in workspace.files()? {
        let full = workspace.root().join(&path);
        let bytes = fs::read(&full).map_err(Error::file("read", &full))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(sources::SourceFile { path, text });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stages_before_the_trainer_need_no_libtorch() {
        let workspace = Workspace::find().unwrap();
        for package in WITHOUT_LIBTORCH {
            let tree = dependency_tree(&workspace, package).unwrap();
            assert!(tree.starts_with(package), "{tree}");
            assert_eq!(dependencies::check_tree(package, &tree), []);
        }
    }

    #[test]
    fn a_loader_without_its_features_needs_no_server_and_no_compression() {
        let tree = featureless_loader(&Workspace::find().unwrap()).unwrap();
        assert!(tree.starts_with("millstream-loader") && tree.contains("\narrow "), "{tree}");
        assert_eq!(dependencies::check_featureless(&tree), []);
    }

    #[test]
    fn a_problem_says_where_which_rule_and_what_to_do() {
        let problem = Problem {
            place: "loader/src/utils.rs".into(),
            rule: "file name",
            advice: "name it after its idea".into(),
        };
        assert_eq!(problem.to_string(), "loader/src/utils.rs: file name: name it after its idea");
    }
}
