//! Averaged weights are what is validated, tested and kept as the model; what learns is not changed by it.

use crate::stream::{Stream, saved_model, settings, trainer};
use millstream_data::Phase;
use millstream_model::{BatchTensors, Mode};
use millstream_stage::{Ending, Sink};
use millstream_trainer::TrainReport;
use std::path::Path;
use tch::{Kind, Tensor};

const WINDOWS: [u64; 3] = [160, 40, 40];

fn train(ema: f64, validated: bool, run: &Path) -> TrainReport {
    let mut settings = settings();
    settings.ema = ema;
    let stream = Stream::new(2, [WINDOWS[0], if validated { WINDOWS[1] } else { 0 }, WINDOWS[2]]);
    let mut trainer = trainer(settings, run);
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    trainer.finish(Ending::Drained).unwrap()
}

fn read(run: &Path, name: &str) -> std::collections::HashMap<String, Tensor> {
    Tensor::read_safetensors(run.join("checkpoints").join(name)).unwrap().into_iter().collect()
}

#[test]
fn what_learns_is_the_same_and_what_is_kept_is_the_average() {
    for validated in [true, false] {
        let (plain, averaged) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let without = train(0.0, validated, plain.path());
        let with = train(0.9, validated, averaged.path());
        let losses = |report: &TrainReport| {
            report.losses.iter().map(|epoch| epoch.train_loss).collect::<Vec<_>>()
        };
        assert_eq!(losses(&with), losses(&without));
        assert_ne!(with.test, without.test);
        let raw = read(plain.path(), "last/model.safetensors");
        let (model, kept) = (
            read(averaged.path(), "last/model.safetensors"),
            read(averaged.path(), "last/optimizer.safetensors"),
        );
        for (name, tensor) in raw {
            assert!(kept[&format!("raw.{name}")].equal(&tensor), "{name} learned otherwise");
            assert!(!model[&name].equal(&tensor), "{name} is no average");
        }
    }
}

/// The figures of the report are those of the file that is forecast with.
#[test]
fn the_figures_are_those_of_what_is_kept() {
    let run = tempfile::tempdir().unwrap();
    let report = train(0.9, true, run.path());
    let stream = Stream::new(2, WINDOWS);
    let model = saved_model(&run.path().join("checkpoints/best"), &stream);
    let check = |phase: Phase, expected: f64| {
        let tags = stream.tags().into_iter().filter(|tag| tag.phase == phase && tag.epoch != 0);
        let (mut squares, mut count) = (0.0, 0.0);
        for tag in tags.filter(|tag| phase == Phase::Test || tag.epoch == 1) {
            let batch = BatchTensors::new(stream.batch(tag)).unwrap();
            let forecast = model.forward(&batch.inputs, Mode::Evaluate).unwrap();
            squares += (forecast - &batch.targets).square().sum(Kind::Double).double_value(&[]);
            count += batch.rows() as f64;
        }
        assert!((squares / count - expected).abs() < 1e-6, "{phase:?}");
    };
    check(Phase::Validation, report.validation.unwrap().overall.mse.unwrap());
    check(Phase::Test, report.test.unwrap().overall.mse.unwrap());
}
