//! What it costs to hand one item to the next stage, beside the bare channel it is built on.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream_stage::{Emit, Ending, Flow, Item, Pipeline, Sink, Source, Stage};
use std::{convert::Infallible, hint::black_box, thread};

const ITEMS: u64 = 100_000;
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

fn hand_over(c: &mut Criterion) {
    let mut group = c.benchmark_group("stage/hand-over");
    group.throughput(Throughput::Elements(ITEMS)).sample_size(10);
    group.bench_function("ours", |b| {
        b.iter(|| {
            let line = Pipeline::from("source", Count(0), DEPTH).then("pass", Pass);
            black_box(line.run("sum", Sum(0)).expect("nothing fails").report)
        });
    });
    group.bench_function("floor: bare bounded channels", |b| b.iter(|| black_box(bare_channels())));
    group.finish();
}

criterion_group!(benches, hand_over);
criterion_main!(benches);
