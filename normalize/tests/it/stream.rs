//! The stage in a line: what it streams for training, for a resumed run and for prediction, and
//! how it refuses a panel it cannot cut.

use crate::support::Table;
use millstream_normalize::{
    MakeSlots, Normalize, NormalizeError, NormalizeSettings, Purpose, Resume, ScaleSettings,
    SplitSettings, TargetSettings, WindowSettings,
};
use millstream_stage::{
    BatchSlot, Ending, Flow, Lease, Panel, Phase, Pipeline, PipelineError, Plan, Pool, Sink, Source,
};
use std::{convert::Infallible, num::NonZeroUsize, sync::Arc};

struct Once(Option<Panel>);

impl Source for Once {
    type Out = Panel;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Panel>, Infallible> {
        Ok(self.0.take())
    }
}

/// What arrived: tag and content of each batch.
#[derive(Default)]
struct Collect {
    batches: Vec<(u32, Phase, u64, Vec<i64>)>,
    plan: Option<Arc<Plan>>,
}

impl Sink for Collect {
    type In = Lease<BatchSlot>;
    type Report = Self;
    type Error = Infallible;
    fn accept(&mut self, slot: Lease<BatchSlot>) -> Result<Flow, Infallible> {
        let tag = slot.meta.tag.unwrap();
        self.plan.clone_from(&slot.meta.plan);
        self.batches.push((tag.epoch, tag.phase, tag.index, slot.meta.time.clone()));
        Ok(Flow::Continue)
    }
    fn finish(self, _: Ending) -> Result<Self, Infallible> {
        Ok(self)
    }
}

fn size(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Two series of 40 rows and one of 3.
fn panel() -> Panel {
    let series = |rows: i64| (0..rows).map(|t| (t, vec![t as f32, 1.0])).collect();
    Table { width: 2, series: vec![series(40), series(40), series(3)] }.panel(17)
}

fn settings(purpose: Purpose) -> NormalizeSettings {
    NormalizeSettings {
        target: TargetSettings { columns: vec!["c0".into()], ..TargetSettings::default() },
        window: WindowSettings { lookback: size(5), ..WindowSettings::default() },
        scale: ScaleSettings::default(),
        batch_size: size(8),
        threads: size(2),
        purpose,
    }
}

fn training(resume: Option<Resume>) -> Purpose {
    Purpose::Train { split: SplitSettings::default(), epochs: 2, seed: 1, resume }
}

fn stream(settings: NormalizeSettings) -> Result<Collect, PipelineError> {
    let make: MakeSlots =
        Box::new(|layout| Ok(Pool::new((0..2).map(|_| BatchSlot::on_heap(layout)))));
    Pipeline::from("loader", Once(Some(panel())), 1)
        .then("normalize", Normalize::new(settings, make))
        .run("collect", Collect::default())
        .map(|outcome| outcome.report)
}

#[test]
fn training_streams_every_epoch_without_a_pause() {
    let collected = stream(settings(training(None))).unwrap();
    let plan = collected.plan.unwrap();
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
}

#[test]
fn a_resumed_stream_is_the_tail_of_the_whole_one() {
    let whole = stream(settings(training(None))).unwrap().batches;
    for (epoch, batch) in [(1, 0), (1, 4), (2, 3), (2, 6)] {
        let resumed = stream(settings(training(Some(Resume { epoch, batch })))).unwrap().batches;
        let tail = &whole[whole.len() - resumed.len()..];
        assert_eq!(tail, resumed);
        let expected = if batch == 6 { Phase::Validation } else { Phase::Train };
        assert_eq!((resumed[0].0, resumed[0].1), (epoch, expected));
    }
}

#[test]
fn prediction_reaches_into_the_future() {
    let plan = stream(settings(training(None))).unwrap().plan.unwrap();
    let purpose = Purpose::Predict {
        schema: Box::new(plan.schema.clone()),
        scaling: plan.scaling.clone(),
        from: plan.schema.test_start,
    };
    let collected = stream(settings(purpose)).unwrap();
    let mut times: Vec<i64> = collected.batches.iter().flat_map(|b| b.3.clone()).collect();
    times.sort_unstable();
    // The test windows are made at 33..39; the one at 39 forecasts a row nobody has.
    let expected: Vec<i64> = (33..40).flat_map(|t| [t, t]).collect();
    assert_eq!(times, expected);
}

fn check_refused(change: impl FnOnce(&mut NormalizeSettings), expected: &str) {
    let mut settings = settings(training(None));
    change(&mut settings);
    let Err(error) = stream(settings) else { panic!("accepted; expected {expected}") };
    assert_eq!(error.stage, "normalize");
    assert!(error.source.is::<NormalizeError>());
    let text = error.source.to_string();
    assert!(text.contains(expected), "{text}");
}

#[test]
fn impossible_settings_are_refused_with_the_numbers() {
    check_refused(
        |s| s.window.lookback = size(40),
        "need 41 rows, the longest has 40; set window.lookback to 39",
    );
    check_refused(|s| s.window.horizon = size(50), "set window.horizon below 40");
    check_refused(
        |s| s.target.columns = vec!["nope".into()],
        "\"nope\", which the data does not have; it has c0, c1",
    );
    check_refused(|s| s.target.columns.clear(), "target.columns is empty");
    check_refused(|s| s.window.lookback = size(35), "no window to learn from: training ends at 28");
}
