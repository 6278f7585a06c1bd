//! Rules about single files: how they start, what they are called, how long they are, and that
//! they hold no path of somebody's machine.
//!
//! Formatting is rustfmt's, code is clippy's.

use std::path::{Component, Path};

use super::Problem;

/// A text file of the workspace.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// Relative to the workspace's root.
    pub(super) path: String,
    pub(super) text: String,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// Above this a file is reported, so that it gets split in time.
const LONG: usize = 400;

/// Above this a file is an error.
const TOO_LONG: usize = 600;

const EMPTY_NAMES: [&str; 7] =
    ["utils", "common", "helpers", "types", "prelude", "manager", "handler"];

/// Put together at compile time, or this file would break its own rule.
const MACHINE_PATHS: [&str; 3] =
    [concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];

/// Applies every rule to a file.
pub(super) fn check(file: &SourceFile) -> Vec<Problem> {
    let mut problems = machine_paths(file);
    if file.is_rust() {
        problems.extend(header(file));
        problems.extend(name(file));
        problems.extend(size(file));
    }
    problems
}

/// A remark on a file that is long but not yet too long.
pub(super) fn size_note(file: &SourceFile) -> Option<String> {
    let lines = file.lines();
    (file.is_rust() && lines > LONG && lines <= TOO_LONG)
        .then(|| format!("{} has {lines} lines; does it still hold one idea?", file.path))
}

fn header(file: &SourceFile) -> Option<Problem> {
    (!file.text.starts_with("//!")).then(|| Problem {
        place: format!("{}:1", file.path),
        rule: "file header",
        advice: "start with `//!`: what the file is, and what it deliberately does not do".into(),
    })
}

fn name(file: &SourceFile) -> Option<Problem> {
    let components = Path::new(&file.path).components();
    let empty = components
        .filter_map(|component| match component {
            Component::Normal(name) => Path::new(name).file_stem()?.to_str(),
            _ => None,
        })
        .find(|stem| EMPTY_NAMES.contains(stem))?;
    Some(Problem {
        place: file.path.clone(),
        rule: "file name",
        advice: format!("`{empty}` says nothing; name it after the one idea it holds"),
    })
}

fn size(file: &SourceFile) -> Option<Problem> {
    let lines = file.lines();
    (lines > TOO_LONG).then(|| Problem {
        place: file.path.clone(),
        rule: "file size",
        advice: format!("{lines} lines, the limit is {TOO_LONG}; split it by idea"),
    })
}

fn machine_paths(file: &SourceFile) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(found) = MACHINE_PATHS.into_iter().find(|start| holds_absolute(line, start)) {
            problems.push(Problem {
                place: format!("{}:{}", file.path, index + 1),
                rule: "machine path",
                advice: format!("`{found}…` exists on one machine only; make it relative"),
            });
        }
    }
    problems
}

/// Whether `start` occurs in `line` other than in the middle of a longer path.
fn holds_absolute(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(position, _)| {
        let before = line[..position].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~}".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str, expected: &[&str]) {
        let file = SourceFile { path: path.into(), text: text.into() };
        let problems: Vec<_> = check(&file).iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn a_rust_file_opens_with_what_it_is() {
        check_text("stage/src/link.rs", "//! A link.\n", &[]);
        check_text("stage/src/link.rs", "use std::fs;\n", &["stage/src/link.rs:1: file header"]);
        check_text("stage/src/empty.rs", "", &["stage/src/empty.rs:1: file header"]);
        check_text("README.md", "# millstream\n", &[]);
    }

    #[test]
    fn names_that_say_nothing_are_found_in_files_and_folders() {
        let header = "//! Things.\n";
        check_text("a/src/utils.rs", header, &["a/src/utils.rs: file name: `utils`"]);
        check_text("a/tests/common/mod.rs", header, &["a/tests/common/mod.rs: file name"]);
        check_text("a/src/data_types.rs", header, &[]);
        check_text("docs/types.md", "# Types\n", &[]);
    }

    #[test]
    fn long_files_are_noted_and_too_long_ones_are_problems() {
        let rust = |lines: usize| SourceFile {
            path: "a.rs".into(),
            text: format!("//! Long.\n{}", "\n".repeat(lines - 1)),
        };
        assert_eq!(size_note(&rust(400)), None);
        assert!(size_note(&rust(401)).is_some_and(|note| note.starts_with("a.rs has 401 lines")));
        assert_eq!(check(&rust(600)), []);
        assert_eq!(size_note(&rust(601)), None);
        check_text("a.rs", &rust(601).text, &["a.rs: file size: 601 lines"]);
    }

    #[test]
    fn paths_of_one_machine_are_found_with_their_line() {
        for start in MACHINE_PATHS {
            let text = format!("first\ncp {start}x y\n");
            check_text("Makefile", &text, &["Makefile:2: machine path"]);
            check_text("a.md", &format!("`{start}x`"), &["a.md:1: machine path"]);
            check_text("a.md", &format!("see src{start}x, ..{start}x and ${{HOME}}{start}x"), &[]);
        }
    }
}
