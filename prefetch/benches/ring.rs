//! The ring beside its floor: the longer of copying and computing, on a simulated device.
//!
//! Time is the simulator's clock, not this machine's: with a copy of 0.9 ms and a kernel of 1 ms a
//! batch cannot take less than 1 ms, and what is measured is how near to it the ring comes. The clock
//! is exact, so both sides run once.
//!
//! ```text
//! cargo bench -p millstream-prefetch --bench ring -- [--json FILE]
//! ```

#[path = "../../stage/benches/harness/mod.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

#[path = "../tests/ring/line.rs"]
#[allow(dead_code, reason = "the tests of the ring use more of it")]
mod line;

use fake_cuda::{Config, Simulator};
use harness::{
    Failure,
    arguments::Arguments,
    report::{Case, Report},
};
use std::{process::ExitCode, time::Duration};

const COPY_NS: u64 = 900_000;
const KERNEL_NS: u64 = 1_000_000;
const BATCHES: u64 = 200;

fn main() -> ExitCode {
    harness::main(run)
}

fn run() -> Result<(), Failure> {
    let Some(arguments) = Arguments::parse(std::env::args().skip(1))? else { return Ok(()) };
    let json = arguments.create_json()?;
    let longer = COPY_NS.max(KERNEL_NS);
    let floor = simulated(0, longer);
    assert_eq!(floor, Duration::from_nanos(longer * BATCHES), "nothing else counts");
    let [value, floor] =
        [simulated(COPY_NS, KERNEL_NS), floor].map(|time| BATCHES as f64 / time.as_secs_f64());
    let case = Case {
        stage: "prefetch",
        case: "ring-simulated".into(),
        unit: "items/s",
        value,
        floor,
        value_best: None,
        floor_best: None,
        floor_name: "max(copy, compute), simulated clock".into(),
        ratio: value / floor,
        cpu_s: None,
        peak_rss_mb: None,
    };
    eprintln!("{:40} {:5.2} of {}", case.case, case.ratio, case.floor_name);
    let report = Report { cases: vec![case], skipped: Vec::new() };
    match json {
        Some(file) => Ok(serde_json::to_writer_pretty(file, &report)?),
        None => Ok(()),
    }
}

/// The device's time for one run of the ring.
fn simulated(copy_ns: u64, kernel_ns: u64) -> Duration {
    let simulator = Simulator::start(Config { latency_ns: copy_ns, ..Config::default() });
    let run = line::Run { batches: BATCHES, kernel_ns, ..line::Run::default() };
    let found = run.go(&simulator).expect("nothing fails");
    assert_eq!((found.right, found.wrong), (BATCHES, 0), "every batch is right");
    Duration::from_nanos(simulator.latest_ns())
}
