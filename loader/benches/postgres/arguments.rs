//! The command line: what `cargo bench` and people pass, and what the parent passes to a child.

use crate::{Failure, method::Job};
use std::path::PathBuf;

/// What a person asked for.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// Fewer rows and rounds, for a first look.
    pub(crate) quick: bool,
    /// Where the cases go, for programs.
    pub(crate) json: Option<PathBuf>,
    /// A Python with other readers installed, to be measured beside ours instead of the floors.
    pub(crate) peers: Option<PathBuf>,
}

/// What this process is here for.
pub(crate) enum Wanted {
    Bench(Arguments),
    Child(Job),
    Nothing,
}

impl Arguments {
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Wanted, Failure> {
        let mut arguments = Arguments::default();
        // `cargo test --benches` starts benches too, without this flag.
        let mut wanted = false;
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => wanted = true,
                "--quick" => arguments.quick = true,
                "--json" => arguments.json = Some(value()?.into()),
                "--peers" => arguments.peers = Some(value()?.into()),
                "--child" => return Job::parse(given).map(Wanted::Child),
                other => {
                    let known = "--quick, --json FILE and --peers PYTHON";
                    return Err(format!("unknown argument {other}; there are {known}").into());
                }
            }
        }
        Ok(if wanted { Wanted::Bench(arguments) } else { Wanted::Nothing })
    }
}
