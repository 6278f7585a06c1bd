//! `millstream export`: what others load gives what ours forecasts.

use crate::bench::{Bench, SMALL, check_fails};
use std::fs;
use tch::{CModule, Device, Kind, Tensor};

/// Weights are read as PyTorch would read them, and the network is written out by hand.
fn by_hand(run: &std::path::Path, inputs: &Tensor, hidden: i64) -> Tensor {
    let weights = Tensor::read_safetensors(run.join("checkpoints/best/model.safetensors")).unwrap();
    let take = |name: &str| {
        let found = weights.iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.shallow_clone()
    };
    let recurrent = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        .map(|name| take(&format!("lstm.{name}_l0")));
    let rows = inputs.size()[0];
    let states = [(), ()].map(|()| Tensor::zeros([1, rows, hidden], (Kind::Float, Device::Cpu)));
    let (_, last, _) = inputs.lstm(&states, &recurrent, true, 1, 0.0, false, false, true);
    let forecast = last.select(0, -1).linear(&take("head.weight"), Some(&take("head.bias")));
    forecast.view([rows, 1, 1])
}

#[test]
fn the_exported_model_is_the_model() {
    let bench = Bench::new(SMALL);
    let run = bench.json(&["train", "--json"])["run"].as_str().unwrap().to_owned();
    let run = bench.path(&run);
    let exported = bench.json(&["export", "--json"]);
    let path = bench.path(exported["output"].as_str().unwrap());
    assert_eq!(path, run.join("model.pt"));
    assert_eq!(fs::metadata(&path).unwrap().len(), exported["bytes"].as_u64().unwrap());
    let script = CModule::load(&path).unwrap();
    for rows in [1, 5, 300] {
        let inputs = Tensor::linspace(-2.0, 2.0, rows * 12 * 4, (Kind::Float, Device::Cpu));
        let inputs = inputs.view([rows, 12, 4]);
        let found = script.forward_ts(&[&inputs]).unwrap();
        assert!(found.equal(&by_hand(&run, &inputs, 16)), "{rows} rows");
    }
    // Exporting changes nothing, and can be done again.
    bench.json(&["export", "--json"]);
    bench.json(&["predict", "--json"]);
}

#[test]
fn only_a_file_outside_of_checkpoints_is_written() {
    let bench = Bench::new(SMALL);
    check_fails(&bench.run(&["export"]), 2, &["no trained run in runs"]);
    let run = bench.json(&["train", "--json"])["run"].as_str().unwrap().to_owned();
    let set = bench.run(&["export", "--set", "window.lookback=3"]);
    assert_eq!(set.status.code(), Some(2), "a setting would have no effect");
    let inside = format!("{run}/checkpoints/best/model.pt");
    check_fails(&bench.run(&["export", "--output", &inside]), 2, &["in a checkpoint of the run"]);
    check_fails(&bench.run(&["export", "--output", "-"]), 2, &["--output - does not end in .pt"]);
    let settings = fs::read(bench.path("pipeline.toml")).unwrap();
    let refused = bench.run(&["export", "--output", "pipeline.toml"]);
    check_fails(&refused, 2, &["--output pipeline.toml does not end in .pt"]);
    assert_eq!(fs::read(bench.path("pipeline.toml")).unwrap(), settings);
    check_fails(&bench.run(&["export", "--output", "runs"]), 2, &["--output runs is not a file"]);
    let file = bench.path(&run).join("checkpoints/best/model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    bytes[500] ^= 1;
    fs::write(&file, bytes).unwrap();
    check_fails(&bench.run(&["export"]), 1, &["model.safetensors is damaged"]);
    assert!(!bench.path(&run).join("model.pt").exists());
}

#[test]
fn a_run_that_has_not_ended_is_exported_with_a_warning() {
    let bench = Bench::new(SMALL);
    let run = bench.interrupted(&["train", "--set", "train.epochs=40"]);
    let exported = bench.json(&["export", "--json", "--run", &run]);
    let warnings = exported["warnings"].to_string();
    assert!(warnings.contains("has not come to its end"), "{warnings}");
    fs::remove_dir_all(bench.path(&run).join("checkpoints")).unwrap();
    check_fails(&bench.run(&["export", "--run", &run]), 2, &["has no model yet"]);
}
