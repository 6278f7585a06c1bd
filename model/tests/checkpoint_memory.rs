//! Gradient checkpointing holds the peak memory of a step of a 6-layer transformer at 0.6 of what it
//! is without. Alone in a process, whose own peak it reads.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_model::{Inputs, Mode, Model, ModelKind, Parameters, Shape};
use serde_json::json;
use std::process::Command;
use tch::{Device, Kind, Tensor};

const WINDOWS: i64 = 128;

/// With it, malloc gives back at once what is freed, and the peak is that of the tensors.
const GIVEN_BACK: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "65536");

/// A line of what the system says of this process, in kilobytes.
fn status(line: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    found.trim().trim_end_matches(" kB").parse().unwrap()
}

fn model(checkpoint: bool) -> Box<dyn Model> {
    let mut shape = Shape::LEAST;
    (shape.batch_size, shape.lookback, shape.features) = (WINDOWS as usize, 60, 16);
    let options = json!({ "layers": 6, "checkpoint": checkpoint });
    let options = serde_json::from_value(options).unwrap();
    let architecture = ModelKind::Transformer.architecture(&options).unwrap();
    architecture.build(&shape, 1, Device::Cpu).unwrap()
}

/// A forward and a backward pass; the gradients.
fn step(model: &dyn Model, windows: i64) -> Vec<Tensor> {
    tch::manual_seed(1);
    let values = Tensor::ones([windows, 60, 16], (Kind::Float, Device::Cpu));
    let inputs = Inputs { values, lengths: None, mask: None, segments: None };
    let loss = model.forward(&inputs, Mode::Train).unwrap().square().mean(Kind::Float);
    let Parameters { tensors, .. } = model.parameters();
    Tensor::run_backward(&[loss], tensors, false, false)
}

#[test]
fn a_checkpointed_step_takes_little_memory() {
    if std::env::var_os(GIVEN_BACK.0).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.env(GIVEN_BACK.0, GIVEN_BACK.1).arg("--nocapture");
        assert!(again.status().unwrap().success());
        return;
    }
    tch::set_num_threads(1);
    let (with, without) = (model(true), model(false));
    // What libtorch loads and keeps with its first step is not the step's.
    for model in [&with, &without] {
        drop(step(&**model, 1));
    }
    let before = status("VmRSS:");
    // The smaller first: a peak never falls.
    let gradients = step(&*with, WINDOWS);
    let checkpointed = status("VmHWM:") - before;
    let expected = step(&*without, WINDOWS);
    let kept = status("VmHWM:") - before;
    assert!(gradients.iter().zip(&expected).all(|(a, b)| a.equal(b)));
    println!("{checkpointed} kB with checkpointing, {kept} kB without");
    assert!(kept > 80_000.0, "{kept} kB are too little to tell");
    assert!(checkpointed <= 0.6 * kept, "{checkpointed} kB of {kept} kB");
}
