//! `bench-report`: the README's performance section, made from the files that the benches leave.
//!
//! The figures live in `bench/` of the repository: what each bench wrote when it was last run for
//! the README. The section is made from those files and nothing else, and a test makes it again,
//! so nobody can type a figure into it. What the section says is in `bench_report/section.rs`.

mod section;

use std::fs;
use std::path::Path;

use crate::bench_claims;
use crate::bench_stages::report::Report;
use crate::error::Error;
use crate::whole;
use crate::workspace::Workspace;

use section::Figures;

/// What the section stands between in the README.
const BEGIN: &str = "<!-- From here on `cargo xtask bench-report` writes, from bench/*.json. -->\n";
const END: &str = "<!-- Up to here. -->\n";

/// The benches, by the name of the file each writes.
const BENCHES: [&str; 3] = ["stages", "peers", "claims"];

/// Takes over what the benches wrote last, and writes the section anew.
///
/// # Errors
/// When a file of figures is damaged, or the README has no place for the section.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    let target = workspace.metadata()?.target_directory;
    let folder = workspace.root().join("bench");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    for bench in BENCHES {
        let new = target.join(format!("bench-{bench}/{bench}.json"));
        if new.exists() {
            let text = fs::read_to_string(&new).map_err(Error::file("read", &new))?;
            whole::write(&folder.join(format!("{bench}.json")), &text)?;
            println!("bench/{bench}.json is the last run of `cargo xtask bench-{bench}`");
        } else {
            println!("bench/{bench}.json stays as it is; `cargo xtask bench-{bench}` renews it");
        }
    }

    let readme = workspace.root().join("README.md");
    let text = fs::read_to_string(&readme).map_err(Error::file("read", &readme))?;
    let section = section::render(&read(&folder)?);
    let text = insert(&text, &section).ok_or(Error::NoReportSection { begin: BEGIN.trim_end() })?;
    whole::write(&readme, &text)?;
    println!("README.md has their figures");
    Ok(())
}

/// The figures that the repository keeps; those of a bench that was never run are absent.
fn read(folder: &Path) -> Result<Figures, Error> {
    let path = |bench: &str| Some(folder.join(bench)).filter(|path| path.exists());
    let report = |file| path(file).map(|path| Report::read(&path)).transpose();
    Ok(Figures {
        stages: report("stages.json")?,
        peers: report("peers.json")?,
        claims: path("claims.json").map(|path| bench_claims::Report::read(&path)).transpose()?,
    })
}

/// Puts the section in its place; `None` when the text has none.
fn insert(text: &str, section: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{section}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_says_what_the_files_say() {
        let root = Workspace::find().unwrap().root().to_path_buf();
        let text = fs::read_to_string(root.join("README.md")).unwrap();
        let section = section::render(&read(&root.join("bench")).unwrap());
        assert!(
            insert(&text, &section).unwrap() == text,
            "README.md differs from bench/*.json; `cargo xtask bench-report` writes it"
        );
    }

    #[test]
    fn only_what_lies_between_the_marks_changes() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        let expected = format!("before\n{BEGIN}\nnew\n\n{END}after\n");
        assert_eq!(insert(&text, "new\n"), Some(expected.clone()));
        assert_eq!(insert(&expected, "new\n"), Some(expected));
        assert_eq!(insert("no marks", "new"), None);
    }

    #[test]
    fn a_bench_that_was_never_run_has_no_figures() {
        let temp = tempfile::tempdir().unwrap();
        let figures = read(temp.path()).unwrap();
        assert!(figures.stages.is_none() && figures.peers.is_none() && figures.claims.is_none());
        fs::write(temp.path().join("peers.json"), "{}").unwrap();
        assert!(read(temp.path()).is_err());
    }
}
