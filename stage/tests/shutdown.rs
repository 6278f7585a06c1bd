//! Every way a line can end, at depths 0, 1 and 4, under a hang guard: drained, stopped by the
//! sink, stopped from outside, failed and panicked in each part.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_stage::{
    Emit, Ending, Flow, Item, Outcome, Pipeline, PipelineError, Sink, Source, Stage,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const DEPTHS: [usize; 3] = [0, 1, 4];
/// Long enough that a slow machine never trips it, short enough that a hang is seen.
const HANG: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
struct Number(u64);

impl Item for Number {
    fn rows(&self) -> u64 {
        1
    }
    fn bytes(&self) -> u64 {
        8
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot handle {0}")]
struct Bad(u64);

/// What a part does when it meets number `at`.
#[derive(Clone, Copy, Default)]
enum Trouble {
    #[default]
    None,
    Fail(u64),
    Panic(u64),
}

impl Trouble {
    fn meet(self, number: u64) -> Result<(), Bad> {
        match self {
            Trouble::Fail(at) if at == number => Err(Bad(number)),
            Trouble::Panic(at) if at == number => panic!("at {number}"),
            _ => Ok(()),
        }
    }
}

/// Counts the parts that are alive, so that a test can see none is left.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Count {
    next: u64,
    until: u64,
    trouble: Trouble,
    _alive: Alive,
}

impl Source for Count {
    type Out = Number;
    type Error = Bad;
    fn next(&mut self) -> Result<Option<Number>, Bad> {
        self.next += 1;
        self.trouble.meet(self.next)?;
        Ok((self.next <= self.until).then_some(Number(self.next)))
    }
}

/// Emits every number twice.
struct Twice {
    trouble: Trouble,
    _alive: Alive,
}

impl Stage for Twice {
    type In = Number;
    type Out = Number;
    type Error = Bad;
    fn process(&mut self, number: Number, emit: &mut Emit<'_, Number>) -> Result<Flow, Bad> {
        self.trouble.meet(number.0)?;
        for _ in 0..2 {
            if emit.send(Number(number.0)) == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

struct Sum {
    total: u64,
    stop_at: Option<u64>,
    trouble: Trouble,
    finished: Arc<AtomicUsize>,
    _alive: Alive,
}

impl Sink for Sum {
    type In = Number;
    type Report = u64;
    type Error = Bad;
    fn accept(&mut self, number: Number) -> Result<Flow, Bad> {
        self.trouble.meet(number.0)?;
        self.total += number.0;
        Ok(if self.stop_at == Some(number.0) { Flow::Stop } else { Flow::Continue })
    }
    fn finish(self, _: Ending) -> Result<u64, Bad> {
        self.finished.fetch_add(1, Ordering::SeqCst);
        Ok(self.total)
    }
}

#[derive(Clone, Copy, Default)]
struct Case {
    until: u64,
    source: Trouble,
    middle: Trouble,
    sink: Trouble,
    stop_at: Option<u64>,
    /// Ask for a stop from outside before the line runs.
    interrupt: bool,
}

struct Ended {
    result: thread::Result<Result<Outcome<u64>, PipelineError>>,
    finished: usize,
}

/// Runs a case on a thread of its own and fails when it hangs or leaves a part behind.
fn run(case: Case, depth: usize) -> Ended {
    let (alive, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (done, wait) = mpsc::channel();
    let (count, ends) = (Arc::clone(&alive), Arc::clone(&finished));
    let runner = thread::spawn(move || {
        let source =
            Count { next: 0, until: case.until, trouble: case.source, _alive: Alive::new(&count) };
        let middle = Twice { trouble: case.middle, _alive: Alive::new(&count) };
        let last = Twice { trouble: Trouble::None, _alive: Alive::new(&count) };
        let sink = Sum {
            total: 0,
            stop_at: case.stop_at,
            trouble: case.sink,
            finished: ends,
            _alive: Alive::new(&count),
        };
        let (stopper, stop) = crossbeam_channel::unbounded();
        if case.interrupt {
            stopper.send(()).unwrap();
        }
        let line = Pipeline::from("loader", source, depth)
            .then("normalize", middle)
            .then("prefetch", last)
            .stop_on(stop);
        let result = catch_unwind(AssertUnwindSafe(|| line.run("trainer", sink)));
        done.send(result).expect("the test waits for this");
    });
    let result = wait.recv_timeout(HANG).expect("the line hangs");
    runner.join().expect("the runner caught the line's panic");
    assert_eq!(alive.load(Ordering::SeqCst), 0, "a part is still alive");
    Ended { result, finished: finished.load(Ordering::SeqCst) }
}

#[test]
fn drains() {
    for depth in DEPTHS {
        let ended = run(Case { until: 100, ..Case::default() }, depth);
        let outcome = ended.result.unwrap().unwrap();
        assert_eq!((outcome.report, outcome.ending), (4 * 5050, Ending::Drained));
        let items: Vec<_> =
            outcome.stages.iter().map(|s| (s.name.as_str(), s.items, s.bytes)).collect();
        let expected = [
            ("loader", 100, 800),
            ("normalize", 200, 1600),
            ("prefetch", 400, 3200),
            ("trainer", 400, 3200),
        ];
        assert_eq!(items, expected);
        assert_eq!(ended.finished, 1);
    }
}

#[test]
fn an_empty_stream_still_finishes() {
    for depth in DEPTHS {
        let ended = run(Case::default(), depth);
        assert_eq!(ended.result.unwrap().unwrap().report, 0);
        assert_eq!(ended.finished, 1);
    }
}

#[test]
fn the_sink_stops_early_without_an_error() {
    for depth in DEPTHS {
        let ended = run(Case { until: u64::MAX, stop_at: Some(3), ..Case::default() }, depth);
        let outcome = ended.result.unwrap().unwrap();
        // 1 and 2 arrived four times each, then the first 3.
        assert_eq!((outcome.report, outcome.ending), (4 + 8 + 3, Ending::Stopped));
        assert_eq!(ended.finished, 1);
    }
}

#[test]
fn a_stop_from_outside_finishes_as_interrupted() {
    for depth in DEPTHS {
        let ended = run(Case { until: u64::MAX, interrupt: true, ..Case::default() }, depth);
        let outcome = ended.result.unwrap().unwrap();
        assert_eq!((outcome.report, outcome.ending), (0, Ending::Interrupted));
        assert_eq!(ended.finished, 1);
    }
}

fn check_fails(case: Case, stage: &str, message: &str) {
    for depth in DEPTHS {
        let ended = run(case, depth);
        let error = ended.result.unwrap().unwrap_err();
        assert_eq!((error.stage.as_str(), error.source.to_string().as_str()), (stage, message));
        assert_eq!(ended.finished, 0, "a truncated stream must not look finished");
    }
}

#[test]
fn each_part_fails_with_one_root_cause() {
    let base = Case { until: 100, ..Case::default() };
    check_fails(Case { source: Trouble::Fail(50), ..base }, "loader", "cannot handle 50");
    check_fails(Case { middle: Trouble::Fail(50), ..base }, "normalize", "cannot handle 50");
    check_fails(Case { sink: Trouble::Fail(50), ..base }, "trainer", "cannot handle 50");
    // Failing on the very first item, and with an endless source behind it.
    check_fails(Case { source: Trouble::Fail(1), ..base }, "loader", "cannot handle 1");
    check_fails(
        Case { until: u64::MAX, sink: Trouble::Fail(1), ..base },
        "trainer",
        "cannot handle 1",
    );
}

#[test]
fn the_cause_furthest_upstream_wins() {
    let both =
        Case { until: 100, source: Trouble::Fail(2), middle: Trouble::Fail(1), ..Case::default() };
    // With no room in the link the middle always sees 1 first; the source may or may not get to 2.
    let error = run(both, 0).result.unwrap().unwrap_err();
    assert!(["loader", "normalize"].contains(&error.stage.as_str()), "{error}");
}

#[test]
fn a_panic_in_each_part_is_raised_again() {
    let base = Case { until: 100, ..Case::default() };
    for case in [
        Case { source: Trouble::Panic(50), ..base },
        Case { middle: Trouble::Panic(50), ..base },
        Case { sink: Trouble::Panic(50), ..base },
    ] {
        for depth in DEPTHS {
            let ended = run(case, depth);
            let payload = ended.result.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>().unwrap(), "at 50");
            assert_eq!(ended.finished, 0);
        }
    }
}

#[test]
fn stage_threads_carry_the_stage_name() {
    struct NameOnce(bool);
    struct Name(String);
    impl Item for Name {
        fn rows(&self) -> u64 {
            1
        }
        fn bytes(&self) -> u64 {
            0
        }
    }
    impl Source for NameOnce {
        type Out = Name;
        type Error = Bad;
        fn next(&mut self) -> Result<Option<Name>, Bad> {
            let name = thread::current().name().unwrap().to_owned();
            Ok(std::mem::take(&mut self.0).then_some(Name(name)))
        }
    }
    struct Keep(String);
    impl Sink for Keep {
        type In = Name;
        type Report = String;
        type Error = Bad;
        fn accept(&mut self, name: Name) -> Result<Flow, Bad> {
            self.0 = name.0;
            Ok(Flow::Continue)
        }
        fn finish(self, _: Ending) -> Result<String, Bad> {
            Ok(self.0)
        }
    }
    let outcome =
        Pipeline::from("loader", NameOnce(true), 1).run("sink", Keep(String::new())).unwrap();
    assert_eq!(outcome.report, "loader");
}

/// Works on its one item for as long as somebody waits for it.
struct Tireless;

impl Stage for Tireless {
    type In = Number;
    type Out = Number;
    type Error = Bad;
    fn process(&mut self, _: Number, emit: &mut Emit<'_, Number>) -> Result<Flow, Bad> {
        while !emit.next().is_gone() {
            thread::yield_now();
        }
        Ok(Flow::Stop)
    }
}

#[test]
fn a_stage_that_has_nothing_to_send_yet_sees_that_the_next_is_gone() {
    for depth in DEPTHS {
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            let alive = Arc::new(AtomicUsize::new(0));
            let count =
                Count { next: 0, until: 3, trouble: Trouble::None, _alive: Alive::new(&alive) };
            let sum = Sum {
                total: 0,
                stop_at: None,
                trouble: Trouble::None,
                finished: Arc::default(),
                _alive: Alive::new(&alive),
            };
            let (stop, stopped) = crossbeam_channel::bounded(1);
            stop.send(()).unwrap();
            let twice = Twice { trouble: Trouble::None, _alive: Alive::new(&alive) };
            let outcome = Pipeline::from("count", count, depth)
                .then("tireless", Tireless)
                .then("twice", twice)
                .stop_on(stopped)
                .run("sum", sum)
                .unwrap();
            done.send(outcome.ending).unwrap();
        });
        assert_eq!(ended.recv_timeout(HANG).unwrap(), Ending::Interrupted, "depth {depth}");
    }
}
