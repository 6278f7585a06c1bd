//! The short way to batches gives what the stage emits, bit for bit, and holds no more slots than it
//! must.

use crate::{
    cases::{Filled, size},
    stream::{settings, stream_panel, table, training},
};
use millstream_data::{Missing, Panel, Phase, Reference};
use millstream_normalize::{
    NormalizeSettings, Purpose, ShortSeries, TrainPurpose, TrainingData, TrainingSettings,
    WindowOrder,
};

/// Both ways to the batches of the same settings.
fn check_same(change: impl FnOnce(&mut NormalizeSettings)) {
    let panel = table().panel(&[17]);
    let mut wanted = settings(training(None));
    change(&mut wanted);
    let mut data = data(&panel, &wanted);
    let streamed = stream_panel(panel, wanted).unwrap();
    let of_stage = |phase: Phase, epoch: u32| -> Vec<&Filled> {
        let of = streamed.batches.iter().filter(|b| (b.0, b.1) == (epoch, phase));
        of.map(|b| &b.3).collect()
    };
    for epoch in 1..=2 {
        let found: Vec<Filled> = data.train(epoch).map(|batch| Filled::of(&batch)).collect();
        assert!(found.len() > 2);
        assert!(found.iter().eq(of_stage(Phase::Train, epoch)), "epoch {epoch}");
    }
    let validation: Vec<Filled> = data.validation().map(|batch| Filled::of(&batch)).collect();
    assert!(!validation.is_empty() && validation.iter().eq(of_stage(Phase::Validation, 2)));
    let test: Vec<Filled> = data.test().map(|batch| Filled::of(&batch)).collect();
    assert!(!test.is_empty() && test.iter().eq(of_stage(Phase::Test, 2)));
    let (plan, streamed) = (data.plan(), streamed.plan.unwrap());
    assert_eq!((&plan.schema, &plan.scaling), (&streamed.schema, &streamed.scaling));
}

fn data(panel: &Panel, settings: &NormalizeSettings) -> TrainingData {
    let Purpose::Train(TrainPurpose { split, seed, .. }) = settings.purpose.clone() else {
        panic!("not for training")
    };
    let NormalizeSettings { fit, batch_size, .. } = settings.clone();
    TrainingData::new(panel, &TrainingSettings { fit, split, batch_size, seed }).unwrap()
}

#[test]
fn it_gives_what_the_stage_emits() {
    check_same(|_| {});
    check_same(|settings| settings.fit.window.drop_last = true);
    check_same(|settings| {
        settings.fit.window.short = ShortSeries::Pad;
        settings.fit.scale.missing = Missing::Mask;
        settings.fit.scale.reference = Reference::Last;
        settings.fit.window.order = WindowOrder::Shards;
    });
    check_same(|settings| settings.fit.window.order = WindowOrder::ByTime);
}

#[test]
fn a_slot_is_used_again_once_its_batch_is_let_go() {
    let mut data = data(&table().panel(&[17]), &settings(training(None)));
    let addresses = |data: &mut TrainingData| -> Vec<usize> {
        data.train(1).map(|batch| batch.values().as_ptr().addr()).collect()
    };
    let found = addresses(&mut data);
    assert!(found.iter().all(|at| *at == found[0]), "one slot is enough for a loop");
    // Who keeps batches keeps them as they are.
    let kept: Vec<_> = data.train(1).collect();
    let content: Vec<Filled> = kept.iter().map(|batch| Filled::of(batch)).collect();
    assert!(data.train(2).map(|batch| Filled::of(&batch)).zip(&content).all(|(a, b)| a != *b));
    assert!(kept.iter().map(|batch| Filled::of(batch)).eq(content));
}

#[test]
fn what_is_skipped_is_not_filled() {
    let mut data = data(&table().panel(&[17]), &settings(training(None)));
    let whole: Vec<Filled> = data.train(1).map(|batch| Filled::of(&batch)).collect();
    let mut rest = data.train(1).skip(4);
    assert_eq!(rest.len(), whole.len() - 4);
    assert!(Filled::of(&rest.next().unwrap()) == whole[4]);
    assert!(data.train(1).nth(usize::MAX).is_none());
    assert_eq!(whole[0].series.len(), size(8).get());
}
