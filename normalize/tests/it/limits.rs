//! A part of every pass: the plan says how many batches, and the stream has no more.

use crate::stream::{Collect, settings, stream, table, training};
use millstream_data::{Phase, WindowCounts};
use millstream_normalize::{Limit, NormalizeSettings, PredictPurpose, Resume, WindowOrder};

fn limited(limit: Limit, order: WindowOrder, resume: Option<Resume>) -> Collect {
    let mut wanted = NormalizeSettings { limit, ..settings(training(resume)) };
    wanted.fit.window.order = order;
    stream(&table(), wanted).unwrap()
}

fn batches(count: u64) -> Limit {
    Limit::Batches(count.try_into().unwrap())
}

fn overfit(count: u64) -> Limit {
    Limit::Overfit(count.try_into().unwrap())
}

/// Batches of each pass, in the order they came: epoch, phase, how many.
fn passes(collected: &Collect) -> Vec<(u32, Phase, u64)> {
    let mut passes: Vec<(u32, Phase, u64)> = Vec::new();
    for (epoch, phase, ..) in &collected.batches {
        match passes.last_mut() {
            Some(last) if (last.0, last.1) == (*epoch, *phase) => last.2 += 1,
            _ => passes.push((*epoch, *phase, 1)),
        }
    }
    passes
}

#[test]
fn each_pass_has_at_most_so_many_batches() {
    use Phase::{Test, Train, Validation};
    let check = |limit: u64, [train, validation, test]: [u64; 3]| {
        let found = limited(batches(limit), WindowOrder::Global, None);
        let expected = [
            (0, Validation, validation),
            (1, Train, train),
            (1, Validation, validation),
            (2, Train, train),
            (2, Validation, validation),
            (2, Test, test),
        ];
        assert_eq!(passes(&found), expected);
        let plan = found.plan.as_ref().unwrap();
        let WindowCounts { train, validation, test, .. } = plan.windows;
        let seen = |phase, epoch| found.windows(phase, epoch).len() as u64;
        let expected = (seen(Train, 1), seen(Validation, 1), seen(Test, 2));
        assert_eq!((train, validation, test), expected);
        let told = plan.warnings.iter().filter(|line| line.contains("limited to")).count();
        assert_eq!(told, usize::from(limit < 6), "{:?}", plan.warnings);
        found
    };
    // Of 46, 12 and 12 windows, in batches of 8.
    check(1, [1, 1, 1]);
    check(4, [4, 2, 2]);
    check(6, [6, 2, 2]);
    check(100, [6, 2, 2]);
    let found = check(2, [2, 2, 2]);
    let expected =
        "limited to 2 batches of each pass, 40 of 70 windows: figures are of these alone";
    assert_eq!(found.plan.as_ref().unwrap().warnings.last().unwrap(), expected);
    assert_ne!(found.windows(Train, 1), found.windows(Train, 2), "epochs are shuffled anew");
}

#[test]
fn what_is_overfitted_is_the_same_in_every_epoch_and_validated() {
    use Phase::{Train, Validation};
    for order in [WindowOrder::Global, WindowOrder::Shards, WindowOrder::None, WindowOrder::ByTime]
    {
        let found = limited(overfit(2), order, None);
        let expected = [
            (0, Validation, 2),
            (1, Train, 2),
            (1, Validation, 2),
            (2, Train, 2),
            (2, Validation, 2),
        ];
        assert_eq!(passes(&found), expected, "{order:?}");
        let first = found.windows(Train, 1);
        for (phase, epoch) in [(Train, 2), (Validation, 0), (Validation, 1), (Validation, 2)] {
            assert_eq!(found.windows(phase, epoch), first, "{order:?}, {phase:?} {epoch}");
        }
        let plan = found.plan.as_ref().unwrap();
        let count = first.len() as u64;
        let WindowCounts { train, validation, test, .. } = plan.windows;
        assert_eq!((train, validation, test), (count, count, 0));
        assert!(plan.warnings.last().unwrap().starts_with("overfitting 2 batches"));
        // As the first epoch of a run that is meant begins.
        let whole = limited(Limit::None, order, None);
        assert_eq!(whole.windows(Train, 1)[..first.len()], first, "{order:?}");
    }
}

#[test]
fn a_limited_stream_goes_on_where_it_was() {
    let whole = limited(batches(3), WindowOrder::Global, None);
    let resume = Resume { epoch: 2, batch: 1 };
    let rest = limited(batches(3), WindowOrder::Global, Some(resume));
    assert_eq!(
        passes(&rest),
        [(2, Phase::Train, 2), (2, Phase::Validation, 2), (2, Phase::Test, 2)]
    );
    let expected = whole.windows(Phase::Train, 2);
    assert_eq!(rest.windows(Phase::Train, 2), expected[8..]);
}

#[test]
fn forecasts_are_limited_too() {
    let plan = limited(Limit::None, WindowOrder::Global, None).plan.unwrap();
    let check = |limit: Limit, expected: u64, told: bool| {
        let purpose = PredictPurpose::new(plan.schema.clone(), plan.scaling.clone()).into();
        let found = stream(&table(), NormalizeSettings { limit, ..settings(purpose) }).unwrap();
        let windows = found.windows(Phase::Predict, 0).len() as u64;
        let plan = found.plan.as_ref().unwrap();
        assert_eq!((windows, plan.predict), (expected, expected));
        assert_eq!(plan.warnings.iter().any(|line| line.contains("limited to 1 batch")), told);
    };
    check(Limit::None, 14, false);
    check(batches(1), 8, true);
    check(overfit(1), 8, true);
}
