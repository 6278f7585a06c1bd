//! What data a checkpoint is for: other data is refused.

use crate::sample::{
    CHECKPOINT_FILES, batches, checkpoint, contract, fitted_by_series, names, plan, predictor, seal,
};
use millstream_data::{DataSchema, Padding, TargetKind, TimeKind};
use millstream_predictor::{Output, PredictError, read_contract};
use millstream_stage::Sink;

fn check_refused(change: fn(&mut DataSchema), expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trained = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &trained);
    let mut other = trained.clone();
    change(&mut other.schema);
    let path = folder.path().join("forecasts.csv");
    let mut predictor = predictor(folder.path(), Output::file(path).unwrap());
    let error = predictor.accept(batches(&plan(&other)).swap_remove(0)).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    drop(predictor);
    assert_eq!(names(folder.path()), CHECKPOINT_FILES);
}

#[test]
fn data_that_the_model_does_not_know_is_refused() {
    check_refused(
        |schema| schema.features[1] = "c".into(),
        "trained with features [\"a\", \"b\"], but the data has [\"a\", \"c\"]",
    );
    check_refused(
        |schema| schema.target_kind = TargetKind::Return,
        "trained with targets of kind \"value\", but the data has \"return\"",
    );
    check_refused(|schema| schema.delay = 1, "trained with delay 0, but the data has 1");
    check_refused(
        |schema| schema.padding = Padding::Right,
        "trained with padding \"none\", but the data has \"right\"",
    );
    check_refused(
        |schema| schema.segment = Some("day_of_week".into()),
        "trained with segment column none, but the data has \"day_of_week\"",
    );
}

#[test]
fn the_contract_is_what_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = fitted_by_series();
    saved.scaling.schema_hash = saved.schema.hash();
    checkpoint(folder.path(), &saved);
    assert_eq!(read_contract(folder.path()).unwrap(), saved);
}

/// Its schema has no such key, and its hash is the one that was written then.
#[test]
fn a_checkpoint_of_before_there_was_a_delay_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut saved = contract(None, TimeKind::Date);
    saved.scaling.schema_hash = "6bc9ff7f0c811d47".into();
    checkpoint(folder.path(), &saved);
    let path = folder.path().join("schema.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema.as_object_mut().unwrap().remove("delay"), Some(0.into()));
    std::fs::write(&path, schema.to_string()).unwrap();
    seal(folder.path());
    assert_eq!(read_contract(folder.path()).unwrap(), saved);
    // With a delay it is another model.
    saved.schema.delay = 1;
    assert_ne!(saved.schema.hash(), saved.scaling.schema_hash);
}

#[test]
fn a_scaler_of_another_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut mixed = contract(None, TimeKind::Date);
    mixed.scaling.schema_hash = mixed.schema.hash();
    mixed.schema.lookback += 1;
    checkpoint(folder.path(), &mixed);
    let error = read_contract(folder.path()).unwrap_err();
    assert!(matches!(error, PredictError::OtherSchema { .. }), "{error:?}");
    let error = error.to_string();
    let (fitted_for, found) = (&mixed.scaling.schema_hash, mixed.schema.hash());
    for part in ["scaler.json", "schema.json", fitted_for, &found, "or train again"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}
