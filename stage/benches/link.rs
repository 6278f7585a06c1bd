//! What it costs to hand one item to the next stage, beside the bare channel it is built on.
//!
//! Three threads on either side, the middle one passing on what it gets. Who wakes whom on which core
//! changes from second to second, so both sides have to take turns.
//!
//! ```text
//! cargo bench -p millstream-stage --bench link -- [--quick] [--json FILE] [--only TEXT]...
//! ```

#[expect(dead_code, reason = "other benches use more of it")]
mod harness;

use harness::{
    Failure,
    arguments::Arguments,
    report::{Comparison, Report},
    rounds::{self, Outcome},
    sample::{Clock, Sample, Whose},
};
use millstream_stage::{Emit, Ending, Flow, Item, Pipeline, Sink, Source, Stage};
use std::{convert::Infallible, process::ExitCode, thread};

const ITEMS: u64 = 20_000;
const DEPTH: usize = 3;

struct Number(u64);

impl Item for Number {
    fn rows(&self) -> u64 {
        1
    }
    fn bytes(&self) -> u64 {
        8
    }
}

struct Count(u64);

impl Source for Count {
    type Out = Number;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Number>, Infallible> {
        self.0 += 1;
        Ok((self.0 <= ITEMS).then_some(Number(self.0)))
    }
}

struct Pass;

impl Stage for Pass {
    type In = Number;
    type Out = Number;
    type Error = Infallible;
    fn process(&mut self, item: Number, emit: &mut Emit<'_, Number>) -> Result<Flow, Infallible> {
        Ok(emit.send(item))
    }
}

struct Sum(u64);

impl Sink for Sum {
    type In = Number;
    type Report = u64;
    type Error = Infallible;
    fn accept(&mut self, item: Number) -> Result<Flow, Infallible> {
        self.0 += item.0;
        Ok(Flow::Continue)
    }
    fn finish(self, _: Ending) -> Result<u64, Infallible> {
        Ok(self.0)
    }
}

/// The floor: the same items through the same number of bare bounded channels and threads.
fn bare_channels() -> u64 {
    let (first, middle_in) = crossbeam_channel::bounded(DEPTH);
    let (middle_out, last) = crossbeam_channel::bounded(DEPTH);
    thread::scope(|scope| {
        scope.spawn(move || {
            for number in 1..=ITEMS {
                first.send(Number(number)).expect("the middle is there");
            }
        });
        scope.spawn(move || {
            for number in middle_in {
                middle_out.send(number).expect("the end is there");
            }
        });
        last.iter().map(|number| number.0).sum()
    })
}

/// The same through a line of ours.
fn line() -> Result<u64, Failure> {
    let line = Pipeline::from("source", Count(0), DEPTH).then("pass", Pass);
    Ok(line.run("sum", Sum(0))?.report)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Line,
    BareChannels,
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let name = match self {
            Method::Line => "ours: a line of three parts",
            Method::BareChannels => "floor: bare bounded channels",
        };
        name.to_owned()
    }

    fn is_peer(self) -> bool {
        false
    }
}

fn measure(method: Method) -> Result<Sample<()>, Failure> {
    let clock = Clock::start(Whose::Own)?;
    let sum = match method {
        Method::Line => line()?,
        Method::BareChannels => bare_channels(),
    };
    let sample = clock.stop()?;
    if sum != ITEMS * (ITEMS + 1) / 2 {
        return Err("an item was lost".into());
    }
    Ok(sample)
}

fn run() -> Result<(), Failure> {
    let given = std::env::args().skip(1);
    let Some(arguments) = Arguments::parse_without_peers(given)? else { return Ok(()) };
    let json = arguments.create_json()?;
    let methods = arguments.select(vec![Method::Line, Method::BareChannels]);
    let rounds = if arguments.quick { 40 } else { 200 };
    let outcomes = rounds::run(&methods, rounds, measure)?;
    let mut report = Report::default();
    if let [ours, other] = outcomes.as_slice() {
        let other_name = "bare bounded channels";
        let comparison =
            Comparison { stage: "stage", ours, other, other_name, amount: ITEMS as f64 };
        report.cases.extend(comparison.case("hand-over".to_owned(), "items/s", Outcome::wall_s));
    }
    report.publish(&outcomes, json)
}

fn main() -> ExitCode {
    harness::main(run)
}
