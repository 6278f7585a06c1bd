//! `outside`: two programs of others, each a project of its own outside of the workspace.
//!
//! They are what the READMEs show, with dependencies by path: one prepares batches from a CSV file,
//! without libtorch and without what reads PostgreSQL or Parquet; the other trains, as
//! `trainer/README.md` says a program that links libtorch is set up.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::flags::SetupFlags;
use crate::workspace::Workspace;
use crate::{process, seeded_target, setup};

/// A program, and what a project of its own needs for it.
struct Program {
    name: &'static str,
    /// Its source, an example of ours.
    source: &'static str,
    /// Its dependencies: `PATH` stands for the workspace.
    dependencies: &'static str,
    /// Its build script, if any.
    build_script: Option<&'static str>,
    arguments: &'static [&'static str],
    /// What its output holds.
    says: &'static str,
    /// What must not be compiled for it.
    without: &'static [&'static str],
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "reads",
        source: "pipeline/examples/csv_to_batches.rs",
        dependencies: "millstream-loader = { path = \"PATH/loader\", default-features = false }\n\
                       millstream-normalize = { path = \"PATH/normalize\" }\n\
                       millstream-stage = { path = \"PATH/stage\" }\n",
        build_script: None,
        arguments: &["prices.csv", "close"],
        says: "windows",
        without: &["postgres", "rustls", "tokio", "parquet", "tch", "torch-sys"],
    },
    Program {
        name: "trains",
        source: "pipeline/examples/csv_to_metrics.rs",
        dependencies: "millstream = { path = \"PATH/pipeline\", default-features = false }\n\
                       torch-sys = \"0.26\"\n",
        build_script: Some("build-rpath.rs"),
        arguments: &["prices.csv", "close"],
        says: "test mse Some(",
        without: &["postgres", "rustls", "parquet", "clap", "indicatif"],
    },
];

/// Runs the task.
///
/// # Errors
/// When one of them does not build, does not run, or compiles what it does not need.
pub(crate) fn run(workspace: &Workspace) -> Result<(), Error> {
    setup::run(workspace, &SetupFlags::default())?;
    let target = seeded_target::provide(workspace, "outside")?;
    for program in &PROGRAMS {
        let folder = target.with_file_name(program.name);
        make_project(workspace, program, &folder)?;
        let cargo = |arguments: &[&str]| {
            let mut command = workspace.cargo();
            command.current_dir(&folder).env("CARGO_TARGET_DIR", &target);
            command.env_remove("LD_LIBRARY_PATH").args(arguments);
            workspace.point_at_libtorch(&mut command);
            command
        };
        let wrong = |problem| Error::Outside { program: program.name, problem };
        let tree = ["tree", "--edges", "normal,build", "--prefix", "none"];
        let tree = process::stdout_of(&mut cargo(&tree))?;
        let compiled: Vec<&str> =
            tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
        if let Some(needless) = program.without.iter().find(|name| compiled.contains(name)) {
            return Err(wrong(format!("it compiles {needless}")));
        }
        let mut run = cargo(&["run", "--release", "--"]);
        let said = process::stdout_of(run.args(program.arguments))?;
        print!("{said}");
        if !said.contains(program.says) {
            return Err(wrong(format!("it does not say {:?}", program.says)));
        }
    }
    Ok(())
}

fn make_project(workspace: &Workspace, program: &Program, folder: &Path) -> Result<(), Error> {
    let root = workspace.root();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(Error::file("write", &path))
    };
    let copy = |from: &Path, name: &str| {
        fs::copy(from, folder.join(name)).map(drop).map_err(Error::file("copy", from))
    };
    let source = folder.join("src");
    fs::create_dir_all(&source).map_err(Error::file("make", &source))?;
    let dependencies = program.dependencies.replace("PATH", &root.display().to_string());
    let name = program.name;
    // Its folder is below ours, so it says that it is no member; and it has our profile, so that what
    // was compiled for us is good for it.
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{dependencies}\n\
         [profile.release]\noverflow-checks = true\ndebug = \"line-tables-only\"\n"
    );
    write("Cargo.toml", &manifest)?;
    // The versions that are compiled already.
    copy(&root.join("Cargo.lock"), "Cargo.lock")?;
    copy(&root.join(program.source), "src/main.rs")?;
    if let Some(script) = program.build_script {
        copy(&root.join(script), "build.rs")?;
    }
    write("prices.csv", &prices())
}

/// Three series of 300 days.
fn prices() -> String {
    let mut text = String::from("symbol,trade_date,close,volume\n");
    for series in 0..3u32 {
        for day in 0..300u32 {
            let date =
                format!("20{:02}-{:02}-{:02}", 10 + day / 336, day / 28 % 12 + 1, day % 28 + 1);
            let close = 100.0 + f64::from(series) + (f64::from(day) / 7.0).sin();
            let volume = (day * 31 + series) % 97;
            writeln!(text, "S{series},{date},{close},{volume}").expect("a string takes all");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_a_row_a_day_in_order() {
        let text = prices();
        let mut days: Vec<&str> =
            text.lines().skip(1).take(300).map(|line| line.split(',').nth(1).unwrap()).collect();
        assert!(days.is_sorted());
        days.dedup();
        assert_eq!((days.len(), text.lines().count()), (300, 1 + 3 * 300));
    }
}
