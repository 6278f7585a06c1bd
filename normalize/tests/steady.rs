//! Steady state: no allocation anywhere, on any thread.
//!
//! A test program of its own, with one test in it: allocations of other tests would count too.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_data::{
    BatchSlot, Missing, Panel, PanelSchema, Reference, Relative, Shard, TargetKind, TimeKind,
};
use millstream_normalize::{
    FitSettings, MakeSlots, Normalize, NormalizeSettings, PadSide, Rank, ScaleSettings,
    ShortSeries, TargetSettings, TrainPurpose, TrainingData, TrainingSettings, WindowOrder,
    WindowSettings,
};
use millstream_stage::{Ending, Flow, Lease, Pipeline, Pool, Sink, Source, thread_pool_here};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    convert::Infallible,
    hint::black_box,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counts the allocations of every thread of this program.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(memory, layout, size) }
    }
}

const BATCH: usize = 32;
/// Batches to warm up, and of each of the stretches that are compared.
const WARM: usize = 200;
const STRETCH: usize = 500;
const STRETCHES: usize = 4;
const BATCHES: usize = WARM + STRETCHES * STRETCH + 1;

/// The least that was counted over a stretch, given the count at every batch. What is done per
/// batch shows in every stretch; what a thread sets up when it starts, or first has to wait or
/// steal, which may be late, shows in one.
fn least(counts: &[u64]) -> u64 {
    let marks = counts[WARM..].iter().step_by(STRETCH);
    let stretches = marks.clone().zip(marks.skip(1)).take(STRETCHES);
    stretches.map(|(start, end)| end - start).min().unwrap()
}

fn size(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Six series of 500 rows with four columns, the last of them segments; some values are missing.
fn panel() -> Panel {
    let (series, rows, width) = (6u32, 500usize, 4);
    let schema = PanelSchema {
        series_column: Some("symbol".into()),
        time_column: "t".into(),
        time_kind: TimeKind::Integer,
        columns: ["a", "b", "c", "segment"].map(String::from).to_vec(),
        kinds: Vec::new(),
        inputs: 3,
        series: (0..series).map(|code| format!("s{code}")).collect(),
        fingerprint: String::new(),
    };
    let value = |at: usize| match at % width {
        3 => (at / width % 5) as f32,
        1 if at.is_multiple_of(31) => f32::NAN,
        column => 20.0 + (at as f32 * 0.013).sin() + column as f32,
    };
    let codes = (0..series).flat_map(|code| std::iter::repeat_n(code, rows)).collect();
    let times = (0..series).flat_map(|_| 0..rows as i64).collect();
    let values = (0..series as usize * rows * width).map(value).collect();
    Panel::new(Arc::new(schema), vec![Shard::new(codes, times, values, width)]).unwrap()
}

/// What is filled, plain and with everything that is written along.
fn variants() -> Vec<(&'static str, FitSettings)> {
    let target = TargetSettings { columns: vec!["c".into()], ..TargetSettings::default() };
    let window = WindowSettings { lookback: size(20), horizon: size(3), ..Default::default() };
    let plain = FitSettings { target, window, scale: ScaleSettings::default() };
    let mut relative = plain.clone();
    relative.scale.reference = Reference::Column("a".into());
    relative.scale.relative = Relative::Ratio;
    relative.target.kind = TargetKind::Return;
    let mut masked = plain.clone();
    masked.scale.missing = Missing::Mask;
    masked.window.segment = Some("segment".into());
    let mut padded = masked.clone();
    padded.window.short = ShortSeries::Pad;
    padded.window.pad = PadSide::Right;
    padded.scale.reference = Reference::Last;
    let mut shards = plain.clone();
    shards.window.order = WindowOrder::Shards;
    let mut by_time = plain.clone();
    by_time.window.order = WindowOrder::ByTime;
    vec![
        ("plain", plain),
        ("relative", relative),
        ("masked, with segments", masked),
        ("padded on the right, relative, masked, with segments", padded),
        ("shards", shards),
        ("by time", by_time),
    ]
}

struct Once(Option<Panel>);

impl Source for Once {
    type Out = Panel;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Panel>, Infallible> {
        Ok(self.0.take())
    }
}

/// Notes the count of allocations at every batch.
struct Watch {
    counts: Vec<u64>,
    /// Allocates once in every stretch, on purpose.
    violation: bool,
}

impl Sink for Watch {
    type In = Lease<BatchSlot>;
    type Report = Vec<u64>;
    type Error = Infallible;
    fn accept(&mut self, slot: Lease<BatchSlot>) -> Result<Flow, Infallible> {
        drop(slot);
        if self.violation && self.counts.len() % STRETCH == 7 {
            drop(black_box(vec![1_u8; 64]));
        }
        assert!(self.counts.len() < self.counts.capacity(), "noting a count must not allocate");
        self.counts.push(ALLOCATIONS.load(Relaxed));
        Ok(if self.counts.len() < BATCHES { Flow::Continue } else { Flow::Stop })
    }
    fn finish(self, _: Ending) -> Result<Vec<u64>, Infallible> {
        Ok(self.counts)
    }
}

/// Allocations of a stretch of the stage's stream.
fn through_the_stage(fit: &FitSettings, violation: bool) -> u64 {
    let settings = NormalizeSettings {
        fit: fit.clone(),
        batch_size: size(BATCH),
        rank: Rank::ALONE,
        threads: size(2),
        purpose: TrainPurpose { epochs: 99, seed: 3, ..TrainPurpose::default() }.into(),
        ..NormalizeSettings::default()
    };
    let make: MakeSlots =
        Box::new(|layout| Ok(Pool::new((0..4).map(|_| BatchSlot::on_heap(layout)))));
    let watch = Watch { counts: Vec::with_capacity(BATCHES), violation };
    let counts = Pipeline::from("loader", Once(Some(panel())), 2)
        .then("normalize", Normalize::new(settings, make))
        .run("watch", watch)
        .unwrap()
        .report;
    assert_eq!(counts.len(), BATCHES);
    least(&counts)
}

/// Allocations of a stretch of a loop over epochs, on the pool that it runs in.
fn through_a_loop(fit: &FitSettings, pool: &rayon::ThreadPool) -> u64 {
    let (fit, batch_size) = (fit.clone(), size(BATCH));
    let settings = TrainingSettings { fit, batch_size, ..TrainingSettings::default() };
    let mut data = TrainingData::new(&panel(), &settings).unwrap();
    let mut counts = Vec::with_capacity(BATCHES);
    pool.install(|| {
        let mut epoch = 0;
        while counts.len() < BATCHES {
            epoch += 1;
            let room = BATCHES - counts.len();
            let noted = data.train(epoch).take(room).map(|_| ALLOCATIONS.load(Relaxed));
            counts.extend(noted);
        }
    });
    least(&counts)
}

#[test]
fn a_batch_costs_no_allocation() {
    let pool = thread_pool_here("fill", size(2)).unwrap();
    for (what, settings) in variants() {
        // An epoch makes the list of its shards when its turn comes, and has far more batches than
        // the four that this takes.
        let most =
            if settings.window.order == WindowOrder::Shards { STRETCH as u64 / 15 } else { 0 };
        let found = through_the_stage(&settings, false);
        assert!(found <= most, "{what}: {found} by the stage");
        let found = through_a_loop(&settings, &pool);
        assert!(found <= most, "{what}: {found} by a loop");
    }
    // The same line with one allocation in it: the counter counts.
    let (_, plain) = &variants()[0];
    assert_eq!(through_the_stage(plain, true), 1);
}
