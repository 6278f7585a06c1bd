//! 16 bits learn what 32 bits learn, a loss that is scaled too far recovers, and all of it stays on the
//! device.

use crate::stream::{Stream, settings, trainer};
use millstream_model::{ModelKind, ModelOptions, Precision};
use millstream_stage::{Ending, Sink};
use millstream_trainer::{LossScale, TrainReport, TrainSettings};
use std::path::Path;

/// Scaled by so much, gradients of any of these models are beyond 16 bits.
const TOO_MUCH: LossScale = LossScale::From(16_777_216.0);

/// How far a loss may be from that of 32 bits, as a fraction.
const SAME: f64 = 0.01;
/// What a loss is compared with at least, a hundredth of the first one: the targets are without noise,
/// and below it a loss is what rounding leaves.
const LEAST: f64 = 0.003;
/// The same where steps were skipped. This run is over after 120, while the loss still falls by some
/// percent a step; one that does not recover is ten times as far.
const LESS: f64 = 0.5;

fn of_model(kind: ModelKind) -> TrainSettings {
    let mut settings = settings();
    (settings.model, settings.model_options) = (kind, ModelOptions::default());
    settings.learning_rate = 1e-3;
    settings
}

fn train(settings: TrainSettings, run: &Path) -> TrainReport {
    let stream = Stream::new(3, [640, 200, 40]);
    let mut trainer = trainer(settings, run);
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap()
}

fn validation_loss(report: &TrainReport) -> f64 {
    report.losses.last().unwrap().validation_loss.unwrap()
}

/// Every model of our own; which a script is depends on its file.
fn models() -> impl Iterator<Item = ModelKind> {
    ModelKind::ALL.iter().copied().filter(|kind| kind.name() != "script")
}

/// Whether libtorch trains this model in f16 here; where it does not, that is said in a line.
fn has_f16(kind: ModelKind) -> bool {
    let run = tempfile::tempdir().unwrap();
    let mut settings = of_model(kind);
    settings.precision = Precision::F16;
    let stream = Stream::new(1, [16, 0, 0]);
    let fed = stream.feed(&mut trainer(settings, run.path()), &stream.tags());
    let Err(error) = fed.map_err(|error| error.to_string()) else { return true };
    let expected = format!(
        "train.precision is \"f16\", but must be another with train.model = \"{}\": libtorch cannot \
         train it so on a CPU (",
        kind.name()
    );
    assert!(error.starts_with(&expected) && error.lines().count() == 1, "{error}");
    assert_eq!(kind.name(), "lstm", "{error}");
    println!("SKIPPED: {error}");
    false
}

fn check(
    kind: ModelKind,
    whole: f64,
    most: f64,
    change: impl FnOnce(&mut TrainSettings),
) -> TrainReport {
    let run = tempfile::tempdir().unwrap();
    let mut settings = of_model(kind);
    change(&mut settings);
    let (precision, scale) = (settings.precision, settings.loss_scale);
    let report = train(settings, run.path());
    let found = validation_loss(&report);
    let apart = (found - whole).abs() / whole.max(LEAST);
    let name = kind.name();
    println!(
        "{name} in {precision} with {scale:?}: {found} beside {whole}, {} skipped",
        report.skipped
    );
    assert!(apart < most, "{name} in {precision}: {found} is not {whole}");
    assert!(found != whole, "{name} in {precision} is just f32");
    report
}

#[test]
fn every_model_learns_in_16_bits_what_it_learns_in_32() {
    for kind in models() {
        let run = tempfile::tempdir().unwrap();
        let whole = train(of_model(kind), run.path());
        assert_eq!(whole.skipped, 0);
        let whole = validation_loss(&whole);
        assert_eq!(check(kind, whole, SAME, |s| s.precision = Precision::Bf16).skipped, 0);
        if !has_f16(kind) {
            // There the scaler is tested in bf16: of such a number even 32 bits overflow.
            let far = LossScale::From(f64::from(f32::MAX));
            let report =
                check(kind, whole, LESS, |s| (s.precision, s.loss_scale) = (Precision::Bf16, far));
            assert!((1..30).contains(&report.skipped), "{} skipped", report.skipped);
            continue;
        }
        check(kind, whole, SAME, |s| s.precision = Precision::F16);
        // An overflow that is brought about skips steps, recovers and comes to the same.
        let report =
            check(kind, whole, LESS, |s| (s.precision, s.loss_scale) = (Precision::F16, TOO_MUCH));
        assert!((1..30).contains(&report.skipped), "{} skipped", report.skipped);
    }
}

/// 32 bits hold such a scale, and powers of two change no digit.
#[test]
fn a_scale_changes_no_bit_where_nothing_overflows() {
    let weights = |scale: LossScale| {
        let run = tempfile::tempdir().unwrap();
        let mut settings = of_model(ModelKind::Mlp);
        settings.loss_scale = scale;
        assert_eq!(train(settings, run.path()).skipped, 0);
        std::fs::read(run.path().join("checkpoints/last/model.safetensors")).unwrap()
    };
    assert!(weights(LossScale::None) == weights(LossScale::From(1024.0)));
}

#[test]
fn skipped_steps_are_counted_in_the_journal_and_many_are_a_warning() {
    let run = tempfile::tempdir().unwrap();
    let mut settings = of_model(ModelKind::Mlp);
    (settings.precision, settings.loss_scale) = (Precision::F16, TOO_MUCH);
    settings.log_every = 5.try_into().unwrap();
    let warnings = millstream_stage::Warnings::default();
    let stream = Stream::new(1, [320, 40, 0]);
    let mut trainer = trainer(settings, run.path()).warn_to(warnings.clone());
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    let report = trainer.finish(Ending::Drained).unwrap();
    assert!(report.skipped > 2, "{}", report.skipped);
    let journal = std::fs::read_to_string(run.path().join("metrics.jsonl")).unwrap();
    let lines = journal.lines().map(|line| serde_json::from_str(line).unwrap());
    let skipped = lines.filter_map(|line: serde_json::Value| line["skipped"].as_u64());
    assert_eq!(skipped.sum::<u64>(), report.skipped);
    let expected = format!("{} of 20 steps of epoch 1 were skipped", report.skipped);
    assert!(warnings.all().iter().any(|line| line.starts_with(&expected)), "{:?}", warnings.all());
}

/// What forecasts later computes as the model learned.
#[test]
fn a_checkpoint_says_what_its_model_computes_with() {
    for (precision, expected) in [(Precision::F32, "f32"), (Precision::Bf16, "bf16")] {
        let run = tempfile::tempdir().unwrap();
        let mut settings = of_model(ModelKind::Nlinear);
        settings.precision = precision;
        train(settings, run.path());
        let schema = std::fs::read(run.path().join("checkpoints/best/schema.json")).unwrap();
        let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
        assert_eq!(schema["precision"], expected);
    }
}
