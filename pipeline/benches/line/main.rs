//! The whole training line beside its trainer alone: how busy the device is kept.
//!
//! Ours is the line of `millstream train`, from a panel in the cache to a run folder. Its floor is
//! the same trainer handed the same batches, all of them in memory beforehand: it never waits, and
//! nobody else needs the machine. Both must end with the same losses.
//!
//! ```text
//! cargo bench -p millstream --bench line -- [--quick] [--json FILE] [--only TEXT]...
//! ```

mod batches;
mod line;
mod settings;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

use batches::Batches;
use harness::{
    Failure,
    arguments::Arguments,
    report::{Comparison, Report},
    rounds::{self, Outcome},
};
use millstream_trainer::TrainReport;
use settings::Settings;
use std::process::ExitCode;

/// Who trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Line,
    TrainerAlone,
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let name = match self {
            Method::Line => "ours: loader, normalize, prefetch, trainer",
            Method::TrainerAlone => "floor: trainer alone, batches already in memory",
        };
        name.to_owned()
    }

    fn is_peer(self) -> bool {
        false
    }
}

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let given = std::env::args().skip(1);
    let Some(arguments) = Arguments::parse_without_peers(given)? else { return Ok(()) };
    let json = arguments.create_json()?;
    // As the program does before anything else, and on as many threads as it would take.
    millstream::keep_freed_memory();
    let cache = tempfile::tempdir()?;
    let settings = Settings::new(cache.path())?;
    tch::set_num_threads(settings.train_threads.get().try_into()?);

    // The first pass also makes the table and leaves it in the cache.
    let batches = Batches::collect(&settings)?;
    let samples = check(&line::train(&settings)?.1, &batches.train(&settings)?.1)?;
    let methods = arguments.select(vec![Method::Line, Method::TrainerAlone]);
    let rounds = if arguments.quick { 5 } else { 15 };
    let outcomes = rounds::run(&methods, rounds, |method| {
        let (sample, _) = match method {
            Method::Line => line::train(&settings)?,
            Method::TrainerAlone => batches.train(&settings)?,
        };
        Ok(sample)
    })?;
    let mut report = Report::default();
    if let [ours, other] = outcomes.as_slice() {
        let other_name = "trainer alone, batches already in memory";
        let comparison =
            Comparison { stage: "line", ours, other, other_name, amount: samples as f64 };
        report.cases.extend(comparison.case("train".to_owned(), "windows/s", Outcome::wall_s));
    }
    report.publish(&outcomes, json)
}

/// How many windows both have learned, if they have learned the same.
fn check(line: &TrainReport, alone: &TrainReport) -> Result<u64, Failure> {
    if line.losses != alone.losses || line.test != alone.test || line.samples != alone.samples {
        let losses = (&line.losses, &alone.losses);
        return Err(format!("the line and its trainer alone differ: {losses:?}").into());
    }
    eprintln!("both learn {} windows in {} steps to the same losses", line.samples, line.steps);
    Ok(line.samples)
}
