//! Checkpoints that are damaged, older, or of somebody else.

use crate::sample::{
    CHECKPOINT_FILES, batches, checkpoint, contract, find, names, plan, predictor, seal,
};
use millstream_data::{Checksums, TimeKind};
use millstream_predictor::{Output, PredictError, Predictor};
use millstream_stage::{Ending, Sink};
use std::fs;

/// What the checksums vouch for is not what it should be.
fn check_damaged(file: &str, contents: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(None, TimeKind::Date));
    fs::write(folder.path().join(file), contents).unwrap();
    seal(folder.path());
    let output = Output::file(folder.path().join("forecasts.csv")).unwrap();
    let error = Predictor::with_models(folder.path(), output, Box::new(|_| {}), &find)
        .unwrap_err()
        .to_string();
    assert!(error.contains(file) && error.contains(expected), "{error}");
    assert!(error.len() < 400 && error.lines().count() == 1, "{error}");
    assert!(!error.contains("frame #") && !error.contains("Exception raised"), "{error}");
    assert_eq!(names(folder.path()), CHECKPOINT_FILES);
}

#[test]
fn damage_is_named_with_its_file() {
    check_damaged("schema.json", "{", "is damaged");
    check_damaged("scaler.json", "[]", "is damaged");
    check_damaged(
        "scaler.json",
        r#"{"method":"x","features":[],"targets":[]}"#,
        "scales targets []",
    );
    check_damaged("model.safetensors", "garbage", "is damaged: it is not in the safetensors");
}

#[test]
fn every_flipped_byte_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(Some("symbol"), TimeKind::Date));
    let refused = || {
        let output = Output::file(folder.path().join("forecasts.csv")).unwrap();
        Predictor::with_models(folder.path(), output, Box::new(|_| {}), &find).unwrap_err()
    };
    for (file, step) in
        [("checksums.txt", 1), ("schema.json", 1), ("scaler.json", 1), ("model.safetensors", 1)]
    {
        let path = folder.path().join(file);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(step) {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            let error = refused().to_string();
            let expected =
                format!("{} is damaged: it is not what was written there", path.display());
            assert!(error.starts_with(&expected), "byte {at}: {error}");
            assert!(error.ends_with("; restore the checkpoint or train again"), "{error}");
        }
        fs::write(&path, good).unwrap();
    }
    fs::remove_file(folder.path().join("checksums.txt")).unwrap();
    let error = refused();
    assert!(matches!(error, PredictError::ReadCheckpoint { .. }), "{error:?}");
    assert!(error.to_string().contains("checksums.txt"), "{error}");
}

#[test]
fn a_model_of_somebody_else_is_named() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(None, TimeKind::Date));
    let output = Output::file(folder.path().join("forecasts.csv")).unwrap();
    let error = Predictor::new(folder.path(), output, Box::new(|_| {})).unwrap_err().to_string();
    let expected = "there is no model \"last_row\" here; forecast with the program that trained it";
    assert_eq!(error, expected);
    assert_eq!(names(folder.path()), CHECKPOINT_FILES);
}

/// Older versions kept the traced model in a checkpoint, and predicted with that.
#[test]
fn a_checkpoint_of_an_older_version_is_forecast_with() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let mut checksums = Checksums::default();
    fs::write(folder.path().join("model.pt"), "a traced model").unwrap();
    for name in ["model.safetensors", "model.pt", "schema.json", "scaler.json"] {
        checksums.add(name, &fs::read(folder.path().join(name)).unwrap());
    }
    fs::write(folder.path().join(Checksums::FILE), checksums.to_text()).unwrap();
    let output = Output::file(folder.path().join("forecasts.csv")).unwrap();
    let mut predictor = predictor(folder.path(), output);
    let _flow = predictor.accept(batches(&plan(&contract)).swap_remove(0)).unwrap();
    assert_eq!(predictor.finish(Ending::Drained).unwrap().windows, 2);
}
