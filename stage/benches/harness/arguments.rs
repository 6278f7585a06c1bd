//! The command line: what `cargo bench` and people pass.

use super::{Failure, rounds::Method};
use std::{fs::File, path::PathBuf};

/// What a person asked for.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// Fewer rows and rounds, for a first look.
    pub(crate) quick: bool,
    /// A Python with other libraries installed, to be measured beside ours instead of the floors.
    pub(crate) peers: Option<PathBuf>,
    json: Option<PathBuf>,
    /// Any of these; all where there is none.
    only: Vec<String>,
}

impl Arguments {
    /// `None` when nothing is to be measured: `cargo test --benches` starts benches too, without
    /// the flag that `cargo bench` passes.
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Option<Self>, Failure> {
        let mut arguments = Arguments::default();
        let mut wanted = false;
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--bench" => wanted = true,
                "--quick" => arguments.quick = true,
                "--json" => arguments.json = Some(value()?.into()),
                "--peers" => arguments.peers = Some(value()?.into()),
                "--only" => arguments.only.push(value()?),
                other => {
                    let known = "--quick, --json FILE, --peers PYTHON and --only TEXT, \
                                 the last any number of times";
                    return Err(format!("unknown argument {other}; there are {known}").into());
                }
            }
        }
        if !wanted {
            eprintln!("nothing is measured without --bench, which `cargo bench` passes");
        }
        Ok(wanted.then_some(arguments))
    }

    /// The same for a bench beside which nothing of others runs.
    pub(crate) fn parse_without_peers(
        given: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Failure> {
        match Arguments::parse(given)? {
            Some(Arguments { peers: Some(_), .. }) => Err("this bench has no peers".into()),
            arguments => Ok(arguments),
        }
    }

    /// The methods to measure: all, or those with one of the given texts in their description.
    pub(crate) fn select<M: Method>(&self, mut methods: Vec<M>) -> Vec<M> {
        let has = |name: String| self.only.iter().any(|text| name.contains(text));
        methods.retain(|method| self.only.is_empty() || has(method.describe()));
        methods
    }

    /// The file that the cases go to, for programs. To be opened first: a mistyped path should not
    /// cost minutes of measuring.
    pub(crate) fn create_json(&self) -> Result<Option<File>, Failure> {
        let Some(path) = &self.json else { return Ok(None) };
        match File::create(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) => Err(format!("cannot create {}: {error}", path.display()).into()),
        }
    }
}
