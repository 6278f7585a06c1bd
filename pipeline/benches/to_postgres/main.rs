//! From a table in PostgreSQL to forecasts in PostgreSQL: the line of `millstream predict`, beside the loops that
//! people write.
//!
//! All read the same rows, run the same weights and write the same forecasts into tables of one form. The loop
//! by series asks for the rows of a series, forecasts all its windows at once and inserts what comes of that;
//! the loop by forecast does so for every single one, and is measured on some of them.
//!
//! ```text
//! cargo bench -p millstream --bench to_postgres -- [--quick] [--json FILE] [--only TEXT]...
//! ```

mod agree;
mod loops;
mod network;
mod ours;
mod workload;

#[path = "../../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../../../loader/tests/loader/support"]
#[expect(dead_code, clippy::unwrap_used, reason = "the tests' own, which use more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}

use harness::{
    Failure,
    arguments::Arguments,
    report::{Case, Comparison, Report},
    rounds::{self, Outcome},
};
use std::{
    fs::File,
    process::{ExitCode, exit},
    sync::{Arc, Mutex, PoisonError},
};
use support::server::{Options, Server};
use workload::Work;

/// As little disturbed as the loader's bench has it.
const SERVER: [&str; 6] = [
    "shared_buffers=1GB",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1h",
    "max_wal_size=8GB",
];

/// Who forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Line,
    BySeries,
    ByForecast,
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let name = match self {
            Method::Line => "ours: from table to table",
            Method::BySeries => "a loop: a query, a forward, an insert for every series",
            Method::ByForecast => "a loop: a query, a forward, an insert for every forecast",
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
    tch::set_num_threads(std::thread::available_parallelism()?.get().try_into()?);
    let server = Server::with(&Options { settings: &SERVER, ..Options::default() });
    let work = Work::new(&server, arguments.quick)?;
    // The server is in a session of its own, so nobody else would stop it.
    let server = Arc::new(Mutex::new(Some(server)));
    let interrupted = Arc::clone(&server);
    ctrlc::set_handler(move || {
        stop(&interrupted);
        exit(130);
    })?;
    let result = bench(&work, &arguments, json);
    stop(&server);
    result
}

fn stop(server: &Mutex<Option<Server>>) {
    drop(server.lock().unwrap_or_else(PoisonError::into_inner).take());
}

fn bench(work: &Work, arguments: &Arguments, json: Option<File>) -> Result<(), Failure> {
    agree::check(work)?;

    let methods = arguments.select(vec![Method::Line, Method::BySeries, Method::ByForecast]);
    let rounds = if arguments.quick { 2 } else { 5 };
    let mut shares = Vec::new();
    let outcomes = rounds::run(&methods, rounds, |method| {
        work.clear()?;
        match method {
            Method::Line => {
                let (sample, forward_s) = ours::run(work)?;
                shares.push(forward_s / sample.wall_s);
                eprintln!("the model took {:.1} % of it", 100.0 * forward_s / sample.wall_s);
                Ok(sample)
            }
            Method::BySeries => loops::by_series(work),
            Method::ByForecast => loops::by_forecast(work),
        }
    })?;
    let mut report = Report::default();
    report.cases.extend(beside(
        &outcomes,
        work,
        Method::BySeries,
        "to-postgres-beside-a-query-per-series",
    ));
    report.cases.extend(beside(&outcomes, work, Method::ByForecast, "to-postgres"));
    report.cases.extend(forward(shares));
    report.publish(&outcomes, json)
}

/// Forecasts per second of ours and of a loop.
fn beside(
    outcomes: &[Outcome<Method, ()>],
    work: &Work,
    other: Method,
    case: &str,
) -> Option<Case> {
    let find = |method| outcomes.iter().find(|outcome| outcome.method == method);
    let (ours, other) = (find(Method::Line)?, find(other)?);
    let other_name = other.name();
    let amount = work.forecasts() as f64;
    let comparison =
        Comparison { stage: "predictor", ours, other, other_name: &other_name, amount };
    comparison.case(case.to_owned(), "forecasts/s", Outcome::wall_s)
}

/// The share of the model in the time of ours, without the round that warms up.
fn forward(shares: Vec<f64>) -> Option<Case> {
    let mut shares: Vec<f64> = shares.into_iter().skip(1).collect();
    shares.sort_by(f64::total_cmp);
    let median = *shares.get(shares.len() / 2)?;
    Some(Case {
        stage: "predictor",
        case: "to-postgres-forward".to_owned(),
        unit: "of the time",
        value: median,
        floor: 1.0,
        value_best: shares.last().copied(),
        floor_best: Some(1.0),
        floor_name: "the model alone".to_owned(),
        ratio: median,
        cpu_s: None,
        peak_rss_mb: None,
    })
}
