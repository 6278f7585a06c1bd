//! The stage in a line: what it streams for training, for a resumed run, for one of several ranks
//! and for prediction.

use crate::{
    cases::{Filled, size},
    support::Table,
};
use millstream_data::{BatchSlot, Missing, Panel, Phase, Plan, Reference};
use millstream_normalize::{
    FitSettings, MakeSlots, Normalize, NormalizeSettings, PredictPurpose, Purpose, Rank, Resume,
    ScaleMethod, ScaleSettings, TargetSettings, TrainPurpose, WindowOrder, WindowSettings,
};
use millstream_stage::{Ending, Flow, Lease, Pipeline, PipelineError, Pool, Sink, Source};
use std::{convert::Infallible, sync::Arc};

pub(crate) struct Once(pub(crate) Option<Panel>);

impl Source for Once {
    type Out = Panel;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Panel>, Infallible> {
        Ok(self.0.take())
    }
}

/// What arrived: tag and content of each batch.
#[derive(Default)]
pub(crate) struct Collect {
    pub(crate) batches: Vec<(u32, Phase, u64, Filled)>,
    pub(crate) plan: Option<Arc<Plan>>,
}

impl Sink for Collect {
    type In = Lease<BatchSlot>;
    type Report = Self;
    type Error = Infallible;
    fn accept(&mut self, slot: Lease<BatchSlot>) -> Result<Flow, Infallible> {
        let tag = slot.meta.tag.unwrap();
        self.plan.clone_from(&slot.meta.plan);
        self.batches.push((tag.epoch, tag.phase, tag.index, Filled::of(&slot)));
        Ok(Flow::Continue)
    }
    fn finish(self, _: Ending) -> Result<Self, Infallible> {
        Ok(self)
    }
}

impl Collect {
    /// (series, time) of every window of a phase and epoch, in order.
    pub(crate) fn windows(&self, phase: Phase, epoch: u32) -> Vec<(u32, i64)> {
        let of = self.batches.iter().filter(|b| (b.0, b.1) == (epoch, phase));
        of.flat_map(|b| b.3.series.iter().copied().zip(b.3.time.iter().copied())).collect()
    }
}

/// Two series of 40 rows and one of 3.
pub(crate) fn table() -> Table {
    let row = |t: i64| (t, vec![t as f32, 1.0 + (t % 7) as f32]);
    let series = |rows: i64| (0..rows).map(row).collect();
    Table::new(2, vec![series(40), series(40), series(3)])
}

pub(crate) fn settings(purpose: Purpose) -> NormalizeSettings {
    NormalizeSettings {
        fit: FitSettings {
            target: TargetSettings { columns: vec!["c0".into()], ..TargetSettings::default() },
            window: WindowSettings { lookback: size(5), ..WindowSettings::default() },
            scale: ScaleSettings::default(),
        },
        batch_size: size(8),
        rank: Rank::ALONE,
        threads: size(2),
        purpose,
        ..NormalizeSettings::default()
    }
}

pub(crate) fn training(resume: Option<Resume>) -> Purpose {
    TrainPurpose { epochs: 2, seed: 1, resume, ..TrainPurpose::default() }.into()
}

pub(crate) fn stream(table: &Table, settings: NormalizeSettings) -> Result<Collect, PipelineError> {
    stream_panel(table.panel(&[17]), settings)
}

pub(crate) fn stream_panel(
    panel: Panel,
    settings: NormalizeSettings,
) -> Result<Collect, PipelineError> {
    let make: MakeSlots =
        Box::new(|layout| Ok(Pool::new((0..2).map(|_| BatchSlot::on_heap(layout)))));
    Pipeline::from("loader", Once(Some(panel)), 1)
        .then("normalize", Normalize::new(settings, make))
        .run("collect", Collect::default())
        .map(|outcome| outcome.report)
}

#[test]
fn training_streams_every_epoch_without_a_pause() {
    let collected = stream(&table(), settings(training(None))).unwrap();
    let plan = collected.plan.as_ref().unwrap();
    let counts = plan.windows;
    // Targets at 5..28 learn, 28..34 validate, 34..40 test, in two series.
    assert_eq!((counts.train, counts.validation, counts.test), (46, 12, 12));
    assert_eq!((counts.short_series, counts.missing_target, counts.across_border), (1, 0, 0));
    let tags: Vec<_> = collected.batches.iter().map(|b| (b.0, b.1, b.2)).collect();
    let mut expected = Vec::new();
    let mut pass =
        |epoch, phase| expected.extend((0..plan.batches(phase)).map(|i| (epoch, phase, i)));
    pass(0, Phase::Validation);
    for epoch in 1..=2 {
        pass(epoch, Phase::Train);
        pass(epoch, Phase::Validation);
    }
    pass(2, Phase::Test);
    assert_eq!(tags, expected);

    // An epoch is every window once, in an order of its own.
    let [first, second] = [1, 2].map(|epoch| collected.windows(Phase::Train, epoch));
    assert_ne!(first, second);
    let sorted = |mut windows: Vec<_>| {
        windows.sort_unstable();
        windows
    };
    let all: Vec<(u32, i64)> = (0..2).flat_map(|s| (4..27).map(move |t| (s, t))).collect();
    assert_eq!((sorted(first), sorted(second)), (all.clone(), all));
}

#[test]
fn a_resumed_stream_is_the_tail_of_the_whole_one() {
    let whole = stream(&table(), settings(training(None))).unwrap().batches;
    for (epoch, batch) in [(1, 0), (1, 4), (2, 3), (2, 6)] {
        let resume = Some(Resume { epoch, batch });
        let resumed = stream(&table(), settings(training(resume))).unwrap().batches;
        let tail = &whole[whole.len() - resumed.len()..];
        assert!(tail == resumed, "epoch {epoch}, batch {batch}");
        let expected = if batch == 6 { Phase::Validation } else { Phase::Train };
        assert_eq!((resumed[0].0, resumed[0].1), (epoch, expected));
    }
}

#[test]
fn ranks_stream_as_many_batches_and_share_the_windows() {
    for order in [WindowOrder::Global, WindowOrder::Shards, WindowOrder::None] {
        let of = |rank: Rank| {
            let mut settings = settings(training(None));
            settings.fit.window.order = order;
            settings.rank = rank;
            stream(&table(), settings).unwrap()
        };
        let alone = of(Rank::ALONE).windows(Phase::Train, 2);
        let ranks = [0, 1].map(|rank| of(Rank { rank, ranks: 2 }));
        let count = |c: &Collect| c.batches.len();
        assert_eq!(count(&ranks[0]), count(&ranks[1]));
        assert_eq!(ranks[0].plan.as_ref().unwrap().batch_size, 4);
        let mut shared: Vec<_> = ranks.iter().flat_map(|c| c.windows(Phase::Train, 2)).collect();
        let mut alone = alone;
        shared.sort_unstable();
        alone.sort_unstable();
        assert_eq!(shared, alone);
    }
}

#[test]
fn by_time_every_batch_is_whole_times() {
    let mut settings = settings(training(None));
    settings.fit.window.order = WindowOrder::ByTime;
    let collected = stream(&table(), settings).unwrap();
    assert!(collected.plan.as_ref().unwrap().by_time);
    for (.., batch) in &collected.batches {
        // Both series at each of its times.
        let mut times = batch.time.clone();
        times.dedup();
        assert_eq!(batch.time.len(), 2 * times.len());
    }
    assert_eq!(collected.windows(Phase::Train, 1).len(), 46);
}

#[test]
fn windows_that_are_left_out_are_counted_by_reason() {
    let mut table = table();
    // The target of one window, which is also an input of four more; the other series is whole.
    table.series[0][10].1[0] = f32::NAN;
    table.series[1][20].1[1] = 0.0;
    let mut settings = settings(training(None));
    settings.fit.scale = ScaleSettings {
        missing: Missing::Drop,
        reference: Reference::Column("c1".into()),
        relative: millstream_data::Relative::Ratio,
        ..ScaleSettings::default()
    };
    let windows = stream(&table, settings).unwrap().plan.unwrap().windows;
    assert_eq!((windows.missing_target, windows.missing_reference), (1, 1));
    assert_eq!(windows.missing_input, 5, "the windows that end at 10 to 14");
    assert_eq!(windows.train, 46 - 7);
}

#[test]
fn prediction_reaches_into_the_future_and_sees_what_training_would() {
    let mut wanted = settings(training(None));
    wanted.fit.scale.method = ScaleMethod::Robust;
    let trained = stream(&table(), wanted).unwrap();
    let plan = trained.plan.as_ref().unwrap();
    let purpose = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone()).into();
    // Of other settings, nothing counts.
    let mut other = settings(purpose);
    other.fit.window.lookback = size(9);
    other.fit.scale.missing = Missing::Mask;
    let predicted = stream(&table(), other).unwrap();
    // The test windows are made at 33..39; the one at 39 forecasts a row nobody has.
    let expected: Vec<(u32, i64)> = (0..2).flat_map(|s| (33..40).map(move |t| (s, t))).collect();
    assert_eq!(predicted.windows(Phase::Predict, 0), expected);
    let inputs = |collected: &Collect, phase: Phase| {
        let mut windows = Vec::new();
        for (.., batch) in collected.batches.iter().filter(|b| b.1 == phase) {
            let size = batch.inputs.len() / batch.time.len();
            for (i, time) in batch.time.iter().enumerate().filter(|(_, time)| **time < 39) {
                let inputs = &batch.inputs[i * size..(i + 1) * size];
                windows.push((*time, inputs.to_vec(), batch.targets[i]));
            }
        }
        windows
    };
    assert_eq!(inputs(&predicted, Phase::Predict), inputs(&trained, Phase::Test));
}

/// Has enough after a few batches.
struct Few(usize);

impl Sink for Few {
    type In = Lease<BatchSlot>;
    type Report = ();
    type Error = Infallible;
    fn accept(&mut self, _: Lease<BatchSlot>) -> Result<Flow, Infallible> {
        self.0 -= 1;
        Ok(if self.0 == 0 { Flow::Stop } else { Flow::Continue })
    }
    fn finish(self, _: Ending) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Four billion epochs would be a terabyte of passes if they were all made first.
#[test]
fn epochs_take_no_memory_before_their_turn() {
    for order in [WindowOrder::Global, WindowOrder::ByTime] {
        let forever = TrainPurpose { epochs: u32::MAX, seed: 1, ..TrainPurpose::default() };
        let mut settings = settings(forever.into());
        settings.fit.window.order = order;
        let make: MakeSlots =
            Box::new(|layout| Ok(Pool::new((0..2).map(|_| BatchSlot::on_heap(layout)))));
        let outcome = Pipeline::from("loader", Once(Some(table().panel(&[17]))), 1)
            .then("normalize", Normalize::new(settings, make))
            .run("few", Few(20))
            .unwrap();
        assert_eq!(outcome.ending, Ending::Stopped);
    }
}
