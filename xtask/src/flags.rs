//! Every flag of every task, in one place.
//!
//! Only shapes and help texts: what a flag does is in the task's own file.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Tasks of the millstream workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Fetch what the build needs (libtorch); does nothing when it is already there
    ///
    /// Every other task that needs libtorch runs this by itself. Set LIBTORCH to use a libtorch
    /// of your own, or LIBTORCH_USE_PYTORCH=1 for the one in the current Python environment.
    Setup(SetupFlags),

    /// Set up, build in release and run `millstream pipeline`
    ///
    /// All that follows is handed to `millstream pipeline` as it is, `--help` included.
    #[command(disable_help_flag = true)]
    Pipeline(PipelineFlags),

    /// Run everything CI runs
    ///
    /// Formatting, tidy, the crates that must build without libtorch, clippy, a Python with pandas that
    /// recomputes figures, tests, the models beside PyTorch, doc-tests, memcheck, docs, programs outside of
    /// the workspace and the toys of CONTRIBUTING.md, in that order; stops at the first failure, but goes on
    /// without Python where there is none, and says so. With arguments after `--`, only the tests run and the
    /// arguments go to the test runner.
    Test(TestFlags),

    /// Check without running tests: formatting, clippy, tidy, docs
    Lint,

    /// Run the tests of the code that handles raw memory under valgrind
    ///
    /// Takes a few minutes. Installs valgrind on a Debian machine when run as root.
    Memcheck,

    /// Break everything that the suite breaks, without bounds
    ///
    /// A fault at every file-changing call of train, resume, import and predict; eight commands at once,
    /// fifty times; Ctrl-C, a hundred times while the server is silent and two hundred times twice in a
    /// row; a thousand flipped bytes; secrets; every setting at its extremes, and a thousand drawn at
    /// random. Takes about an hour on two cores, and starts PostgreSQL servers of its own. What each
    /// trial prints is kept in target/break; the table at the end says what was tried and what was found.
    Break(BreakFlags),

    /// Build and run two programs outside of the workspace, as people who embed a stage do
    ///
    /// One prepares batches and compiles neither libtorch nor what reads PostgreSQL or Parquet; the
    /// other trains, set up as trainer/README.md says.
    Outside,

    /// Compare every model with its PyTorch form
    ///
    /// Weights load there with strict=True, and forecasts agree to 1e-5. Installs PyTorch with pip under
    /// target/test-pytorch, once; it takes some gigabytes.
    Parity,

    /// Apply the diffs of CONTRIBUTING.md to a copy of the workspace, and run what they add
    ///
    /// Each adds a source, scaler, model, optimizer or sink by one new file and one line.
    Toys,

    /// Check the rules that no compiler checks
    ///
    /// Who may depend on what, file headers, names and sizes, paths of one machine, READMEs.
    Tidy,

    /// Benchmark the stages against their floors
    ///
    /// Every stage by itself and the whole training line, each in turns with its floor: under
    /// twenty minutes. Writes stages.json, stages.md and stages.html, a page with bars, to
    /// target/bench-stages and prints the table. The loader's cases start a PostgreSQL server of
    /// their own, and are skipped where there is none.
    BenchStages(BenchStagesFlags),

    /// Benchmark loader, normalize and trainer beside what people use today
    ///
    /// Reading PostgreSQL beside ConnectorX, DuckDB, polars and ADBC, and beside data sets that send
    /// a query per batch; making batches beside PyTorch's DataLoader, torch, numpy and scikit-learn;
    /// training steps beside plain PyTorch loops. Installs pinned versions of them with pip under
    /// target/bench-peers (PyTorch takes some gigabytes, for each of two environments), lets them and
    /// us do the same work in turns, checks that the results are the same, writes peers.json,
    /// peers.md and peers.html to target/bench-peers and prints the table. What cannot be installed
    /// is skipped, and the table says why.
    BenchPeers(BenchPeersFlags),

    /// Measure what optimisation guides promise, before and after
    ///
    /// Ten claims, from parallel normalisation to a panel in memory: the usual code and what takes
    /// its place, in turns on the same data, with the validation loss of both where something is
    /// trained. Writes claims.json and claims.md to target/bench-claims and prints the table. The
    /// claim about queries starts a PostgreSQL server of its own, and is skipped where there is none.
    BenchClaims(BenchClaimsFlags),

    /// Write the README's performance section from what the benches found
    ///
    /// Takes the newest stages.json, peers.json and claims.json from target/ to bench/, where the
    /// repository keeps them, and makes the section from those. A bench that was not run is named.
    BenchReport,

    /// Remove what the pipeline made in this workspace: .millstream/ and runs/
    CleanData(CleanDataFlags),
}

#[derive(Debug, Default, Args)]
pub(crate) struct SetupFlags {
    /// Also make sure that the tests can start a PostgreSQL server
    #[arg(long)]
    pub(crate) with_postgres: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PipelineFlags {
    /// Arguments of `millstream pipeline`, such as --config FILE, --set KEY=VALUE, --json
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct TestFlags {
    /// Leave out what needs Python: figures recomputed by pandas, the models beside PyTorch (gigabytes)
    #[arg(long)]
    pub(crate) no_python: bool,

    /// Run only the tests, and hand these arguments to the test runner
    #[arg(last = true, value_name = "RUNNER ARGS")]
    pub(crate) runner_args: Vec<OsString>,
}

#[derive(Debug, Default, Args)]
pub(crate) struct BreakFlags {
    /// Only this trial, by its name in the table (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchStagesFlags {
    /// Fewer rows and rounds: two minutes, for a first look
    #[arg(long)]
    pub(crate) quick: bool,

    /// Compare with an earlier stages.json: lists what became slower or faster, counts the stable
    /// cases that did neither, and exits 1 when a stable case fell behind
    #[arg(long, value_name = "OLD.json")]
    pub(crate) compare: Option<PathBuf>,

    /// Measure nothing: compare this stages.json with the old one
    #[arg(long, value_name = "NEW.json", requires = "compare")]
    pub(crate) with: Option<PathBuf>,

    /// By how much a case's ratio may change, as a fraction of the old ratio
    #[arg(long, value_name = "FRACTION", default_value_t = 0.10, requires = "compare")]
    pub(crate) tolerance: f64,
}

#[derive(Debug, Args)]
pub(crate) struct BenchPeersFlags {
    /// Fewer rows and rounds: five minutes instead of half an hour, for a first look
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchClaimsFlags {
    /// Fewer rows and rounds: a minute instead of four, for a first look
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanDataFlags {
    /// Remove without asking
    #[arg(long)]
    pub(crate) yes: bool,

    /// Remove .libtorch too; the next set-up makes it again from the cached wheels
    #[arg(long)]
    pub(crate) libtorch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Task, clap::Error> {
        Flags::try_parse_from(line.split(' ')).map(|flags| flags.task)
    }

    #[test]
    fn the_flags_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn pipeline_arguments_pass_through_untouched() {
        let line = "xtask pipeline --json --config a.toml --set train.epochs=3 -- --help";
        let Ok(Task::Pipeline(flags)) = parse(line) else { panic!("not a pipeline task") };
        let expected = ["--json", "--config", "a.toml", "--set", "train.epochs=3", "--", "--help"];
        assert_eq!(flags.args, expected);
    }

    #[test]
    fn pipeline_help_is_left_to_millstream() {
        let Ok(Task::Pipeline(flags)) = parse("xtask pipeline --help") else {
            panic!("xtask kept --help to itself")
        };
        assert_eq!(flags.args, ["--help"]);
    }

    #[test]
    fn test_runner_arguments_need_the_two_dashes() {
        let Ok(Task::Test(flags)) = parse("xtask test -- panel --no-capture") else {
            panic!("not a test task")
        };
        assert_eq!(flags.runner_args, ["panel", "--no-capture"]);
        assert!(parse("xtask test panel").is_err());
        let Ok(Task::Test(flags)) = parse("xtask test --no-python") else { panic!("not a test") };
        assert!(flags.no_python);
    }

    #[test]
    fn a_tolerance_without_a_comparison_is_refused() {
        assert!(parse("xtask bench-stages --tolerance 0.2").is_err());
        assert!(parse("xtask bench-stages --compare old.json --tolerance 0.2").is_ok());
        assert!(parse("xtask bench-stages --with new.json").is_err());
        assert!(parse("xtask bench-stages --compare old.json --with new.json").is_ok());
    }
}
