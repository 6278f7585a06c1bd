//! What can be seen of a line while it runs: a part that works long on one item is seen working, one
//! that waits is seen waiting, and a link that is full is seen full.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_stage::{
    Emit, Ending, Flow, Item, LineCounters, LinkFill, Pipeline, Sink, Source, Stage, StageReport,
};
use std::{
    convert::Infallible,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// Long enough that a slow machine never trips it, short enough that a hang is seen.
const HANG: Duration = Duration::from_secs(60);
const DEPTH: usize = 2;

struct Number;

impl Item for Number {
    fn rows(&self) -> u64 {
        1
    }
    fn bytes(&self) -> u64 {
        8
    }
}

struct Endless;

impl Source for Endless {
    type Out = Number;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Number>, Infallible> {
        Ok(Some(Number))
    }
}

struct PassOn;

impl Stage for PassOn {
    type In = Number;
    type Out = Number;
    type Error = Infallible;
    fn process(&mut self, item: Number, emit: &mut Emit<'_, Number>) -> Result<Flow, Infallible> {
        Ok(emit.send(item))
    }
}

/// Works on its first item until it is let go.
struct Stuck(Receiver<()>);

impl Sink for Stuck {
    type In = Number;
    type Report = ();
    type Error = Infallible;
    fn accept(&mut self, _: Number) -> Result<Flow, Infallible> {
        self.0.recv().unwrap_err();
        Ok(Flow::Stop)
    }
    fn finish(self, _: Ending) -> Result<(), Infallible> {
        Ok(())
    }
}

fn wait_until(counters: &LineCounters, holds: impl Fn(&[StageReport], &[LinkFill]) -> bool) {
    let begun = Instant::now();
    loop {
        let (reports, links) = (counters.reports(), counters.links());
        if holds(&reports, &links) {
            return;
        }
        assert!(begun.elapsed() < HANG, "{reports:?} {links:?}");
        thread::yield_now();
    }
}

#[test]
fn a_line_that_is_stuck_shows_where() {
    let (hold, held) = channel();
    let line = Pipeline::from("source", Endless, DEPTH).then("stage", PassOn);
    let counters = line.counters();
    let running = thread::spawn(move || line.run("sink", Stuck(held)).unwrap());
    wait_until(&counters, |reports, links| {
        reports.len() == 3 && links.iter().all(|link| link.items == DEPTH as u64)
    });
    let links = counters.links();
    let names: Vec<_> = links.iter().map(|link| (link.from.as_str(), link.to.as_str())).collect();
    assert_eq!(names, [("source", "stage"), ("stage", "sink")]);

    // The sink works, the others wait for it, and all of that goes on growing.
    let before = counters.reports();
    wait_until(&counters, |now, _| {
        now[2].busy_s > before[2].busy_s
            && now[0].wait_out_s > before[0].wait_out_s
            && now[1].wait_out_s > before[1].wait_out_s
    });
    let after = counters.reports();
    assert_eq!(after[2].wait_in_s, before[2].wait_in_s);
    assert_eq!(after[2].items, 1);

    drop(hold);
    let outcome = running.join().unwrap();
    assert_eq!(outcome.ending, Ending::Stopped);
    assert_eq!(counters.reports(), outcome.stages, "what has ended does not change");
}
