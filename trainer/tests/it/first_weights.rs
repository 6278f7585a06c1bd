//! A new run that begins with the best weights of another.

use crate::stream::{Stream, settings, trainer};
use millstream_model::{LstmOptions, ModelOptions};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{TrainError, TrainReport, TrainSettings, Trainer};
use std::path::Path;

fn trained(settings: TrainSettings, run: &Path, first: Option<&Path>) -> TrainReport {
    let stream = Stream::new(3, [60, 40, 40]);
    let mut trainer = trainer(settings, run);
    if let Some(first) = first {
        trainer = trainer.with_first_weights_of(first).unwrap();
    }
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap()
}

#[test]
fn it_validates_before_its_first_step_as_the_other_did_at_its_best() {
    let [one, two, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let first = trained(settings(), one.path(), None);
    let best = first.losses.iter().find(|loss| Some(loss.epoch) == first.best_epoch).unwrap();
    let on = trained(settings(), two.path(), Some(one.path()));
    assert_eq!(on.first_validation_loss, best.validation_loss);
    // By themselves, they all begin alike, and elsewhere.
    let anew = trained(settings(), other.path(), None);
    assert_eq!(anew.first_validation_loss, first.first_validation_loss);
    assert_ne!(anew.first_validation_loss, on.first_validation_loss);
}

#[test]
fn weights_of_another_model_and_of_no_run_are_refused() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let error = trainer(settings(), two.path()).with_first_weights_of(one.path()).unwrap_err();
    assert!(matches!(error, TrainError::NoCheckpoint { .. }), "{error}");
    trained(settings(), one.path(), None);

    let stream = Stream::new(3, [60, 40, 40]);
    let mut wider = settings();
    let mut options = LstmOptions::default();
    options.hidden = 8.try_into().unwrap();
    wider.model_options = ModelOptions::of(&options);
    let begin = |settings: TrainSettings, stream: &Stream| -> Result<(), TrainError> {
        let folder = tempfile::tempdir().unwrap();
        let trainer: Trainer = trainer(settings, folder.path());
        let mut trainer = trainer.with_first_weights_of(one.path())?;
        stream.feed(&mut trainer, &stream.tags()[..1])
    };
    begin(settings(), &stream).unwrap();
    let error = begin(wider, &stream).unwrap_err();
    assert!(matches!(error, TrainError::OtherModel { .. }), "{error}");
    // The same shapes, but the columns mean something else.
    let mut renamed = Stream::new(3, [60, 40, 40]);
    let mut plan = (*renamed.plan).clone();
    plan.schema.features.swap(0, 1);
    renamed.plan = std::sync::Arc::new(plan);
    let error = begin(settings(), &renamed).unwrap_err();
    assert!(error.to_string().contains("another model"), "{error}");
}
