//! Every model by its name: several steps of several targets, from the table to forecasts.

use crate::bench::{Bench, check_fails};
use std::fs;

const MODELS: [&str; 6] = ["lstm", "gru", "mlp", "nlinear", "dlinear", "transformer"];

/// Two targets, three steps, and no options: they are the models' own.
const SETTINGS: &str = r#"
[source]
kind = "csv"
path = "prices.csv"
[target]
columns = ["close", "f1"]
[window]
lookback = 8
horizon = 3
[train]
epochs = 2
batch_size = 32
[run]
train_threads = 1
"#;

fn bench() -> Bench {
    let bench = Bench::new(SETTINGS);
    bench.write_csv("prices.csv", 6, 80, crate::bench::day);
    bench
}

/// Trains, and gives the run.
fn train(bench: &Bench, model: &str, changes: &[&str]) -> String {
    let model = format!("train.model={model}");
    let changes = changes.iter().flat_map(|change| ["--set", change]);
    let args: Vec<&str> = ["train", "--json", "--set", &model].into_iter().chain(changes).collect();
    bench.json(&args)["run"].as_str().unwrap().to_owned()
}

fn weights(bench: &Bench, run: &str) -> Vec<u8> {
    fs::read(bench.path(run).join("checkpoints/last/model.safetensors")).unwrap()
}

#[test]
fn every_model_learns_and_forecasts_whatever_the_threads_that_feed_it() {
    let bench = bench();
    for model in MODELS {
        let alone = train(&bench, model, &["run.normalize_threads=1"]);
        let rows = bench.forecasts(&["--run", &alone]);
        let finite =
            |text: &str| text.parse::<f32>().unwrap_or_else(|_| panic!("{model}: {text:?}"));
        let last: Vec<f32> = rows.iter().map(|row| finite(&row["f1_forecast"])).collect();
        assert!(last.iter().all(|value| value.is_finite()), "{model}");
        assert!(rows.iter().any(|row| row["step"] == "3" && row["close"].is_empty()), "{model}");
        let three = train(&bench, model, &["run.normalize_threads=3"]);
        assert!(weights(&bench, &alone) == weights(&bench, &three), "{model}");
    }
    // The comparison can fail.
    let [one, other] = ["42", "43"]
        .map(|seed| weights(&bench, &train(&bench, "mlp", &[&format!("train.seed={seed}")])));
    assert!(one != other);
}

#[test]
fn an_option_of_another_model_is_refused_by_its_owner() {
    let bench = bench();
    let option = "train.model_options.kernel=5";
    let output = bench.run(&["train", "--set", "train.model=gru", "--set", option]);
    check_fails(&output, 2, &["train.model_options.kernel", "dlinear"]);
}

#[test]
fn an_exported_model_has_nothing_left_to_learn() {
    let bench = bench();
    let run = train(&bench, "gru", &[]);
    bench.json(&["export", "--json", "--run", &run, "--output", "model.pt"]);
    let path = "train.model_options.path=model.pt";
    let output = bench.run(&["train", "--set", "train.model=script", "--set", path]);
    check_fails(&output, 2, &["model.pt", "a script with parameters to learn"]);
}
