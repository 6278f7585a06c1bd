//! Every model of the list beside its PyTorch form in `python/reference.py`: our weights load there
//! with `strict=True` and give our forecasts, in evaluation mode, whatever its dropout.
//!
//! `cargo xtask parity` makes the Python environment and runs these tests; `cargo xtask test` does it as
//! a step of its own. How a case is written down is said at the top of `reference.py`.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_data::{
    BatchLayout, ColumnScaling, DataSchema, Extras, Heads, Missing, Padding, Scaling, SplitMix64,
    TargetKind,
};
use millstream_model::{
    Architecture, Inputs, Mode, ModelDescription, ModelKind, Shape, built_in, forecasts,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};
use tch::{Device, Kind, Tensor};

const ROWS: usize = 6;
const FEATURES: [&str; 5] = ["a", "b", "c", "d", "e"];
const WEIGHTS: &str = "model.safetensors";
const SEGMENTS: usize = 4;

/// Options to try with each model, besides its defaults.
fn option_sets(kind: ModelKind) -> Vec<Value> {
    match kind.name() {
        "lstm" | "gru" => vec![json!({ "hidden": 16, "layers": 3, "dropout": 0.4 })],
        "mlp" => vec![
            json!({ "hidden": 24, "layers": 3, "dropout": 0.4 }),
            json!({ "hidden": 8, "layers": 1, "activation": "relu", "dropout": 0.1 }),
        ],
        "nlinear" => vec![json!({ "individual": true })],
        "dlinear" => vec![
            json!({ "individual": true }),
            json!({ "kernel": 7 }),
            json!({ "kernel": 101, "individual": true }),
        ],
        "transformer" => {
            let small = json!({ "width": 24, "heads": 3, "feedforward": 40, "dropout": 0.4 });
            let mut segmented = small.clone();
            (segmented["layers"], segmented["segments"]) = (3.into(), SEGMENTS.into());
            vec![small, segmented]
        }
        _ => Vec::new(),
    }
}

/// What a model is shown and forecasts.
#[derive(Clone)]
struct Data {
    lookback: usize,
    horizon: usize,
    targets: &'static [&'static str],
    kind: TargetKind,
    padding: Padding,
    missing: Missing,
    segments: bool,
    heads: Heads,
}

/// One step of one target; several of some, and of all; changes; a mask; quantiles and logits; and where
/// the model reads them, padding on both sides and segments.
fn data_sets(model: &dyn Architecture) -> Vec<Data> {
    let one = Data {
        lookback: 12,
        horizon: 1,
        targets: &["c"],
        kind: TargetKind::Value,
        padding: Padding::None,
        missing: Missing::Zero,
        segments: false,
        heads: Heads::Value,
    };
    let some = Data { lookback: 30, horizon: 4, targets: &["d", "b", "e"], ..one.clone() };
    let quantiles = Heads::Quantiles(vec![0.1, 0.25, 0.5, 0.9]);
    let mut all = vec![
        Data { lookback: 16, horizon: 7, targets: &FEATURES, ..one.clone() },
        Data { kind: TargetKind::Return, ..some.clone() },
        Data { missing: Missing::Mask, ..some.clone() },
        Data { heads: quantiles, ..some.clone() },
        Data { heads: Heads::Logit, kind: TargetKind::Direction, ..some.clone() },
    ];
    if model.reads_padding() {
        all.push(Data { padding: Padding::Left, ..some.clone() });
        all.push(Data { padding: Padding::Right, ..some.clone() });
    }
    if model.reads_segments() {
        all.push(Data { segments: true, ..some.clone() });
    }
    all.extend([one, some]);
    all
}

impl Data {
    fn schema(&self) -> DataSchema {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        DataSchema {
            features: names(&FEATURES),
            targets: names(self.targets),
            lookback: self.lookback,
            horizon: self.horizon,
            target_kind: self.kind,
            padding: self.padding,
            segment: self.segments.then(|| "sector".to_owned()),
            ..DataSchema::default()
        }
    }

    fn scaling(&self) -> Scaling {
        let scaled = |name: &&str| ColumnScaling::affine(*name, 10.0, 4.0, 10.0);
        Scaling {
            missing: self.missing,
            features: FEATURES.iter().map(scaled).collect(),
            targets: self.targets.iter().map(scaled).collect(),
            ..Scaling::default()
        }
    }

    fn shape(&self) -> Shape {
        let (schema, scaling) = (self.schema(), self.scaling());
        let layout = BatchLayout {
            batch_size: ROWS,
            lookback: self.lookback,
            features: scaling.input_width(),
            horizon: self.horizon,
            targets: self.targets.len(),
            extras: Extras { padding: self.padding != Padding::None, segments: self.segments },
        };
        Shape::of(&layout, &schema, &scaling).with_heads(&self.heads)
    }

    /// Windows of chance, of which some are short where they may be.
    fn inputs(&self) -> Inputs {
        let mut random = SplitMix64::new(7);
        let width = self.scaling().input_width();
        let size = [ROWS, self.lookback, width].map(|size| size as i64);
        let values: Vec<f32> =
            (0..size.iter().product()).map(|_: i64| random.uniform(2.0)).collect();
        let values = Tensor::from_slice(&values).view(size);
        let mut inputs = Inputs { values, lengths: None, mask: None, segments: None };
        if self.padding != Padding::None {
            let longest = self.lookback as i64;
            let lengths = [longest, 1, longest / 2, 3, longest - 1, 2];
            let mask = Tensor::zeros(&size[..2], (Kind::Float, Device::Cpu));
            for (row, length) in lengths.into_iter().enumerate() {
                let first = if self.padding == Padding::Left { longest - length } else { 0 };
                let _ = mask.select(0, row as i64).narrow(0, first, length).fill_(1.0);
            }
            let _ = inputs.values.g_mul_(&mask.unsqueeze(2));
            inputs.lengths = Some(Tensor::from_slice(&lengths).to_kind(Kind::Float));
            inputs.mask = Some(mask);
        }
        if self.segments {
            let segments: Vec<f32> =
                (0..size[0] * size[1]).map(|_| (random.bits() % SEGMENTS as u64) as f32).collect();
            inputs.segments = Some(Tensor::from_slice(&segments).view(&size[..2]));
        }
        inputs
    }
}

/// Writes a case down, and gives its folder.
fn write(folder: &Path, model: &dyn Architecture, data: &Data) -> PathBuf {
    let taken = fs::read_dir(folder).unwrap().count();
    let case = folder.join(format!("{}-{taken}", model.name()));
    fs::create_dir(&case).unwrap();
    let (built, inputs) = (model.build(&data.shape(), 42, Device::Cpu).unwrap(), data.inputs());
    let parameters = built.parameters();
    let weights: Vec<_> = parameters.names.iter().zip(&parameters.tensors).collect();
    Tensor::write_safetensors(&weights, case.join(WEIGHTS)).unwrap();
    let description = ModelDescription::of(model).with_heads(data.heads.clone());
    let mut schema = serde_json::to_value(data.schema()).unwrap();
    schema["model"] = serde_json::to_value(description).unwrap();
    fs::write(case.join("schema.json"), schema.to_string()).unwrap();
    let scaling = serde_json::to_string(&data.scaling()).unwrap();
    fs::write(case.join("scaler.json"), scaling).unwrap();

    let _guard = tch::no_grad_guard();
    let outputs = built.forward(&inputs, Mode::Evaluate).unwrap();
    let forecast = forecasts(&data.heads, &outputs).unwrap().contiguous();
    let mut example = vec![("forecast", &forecast), ("values", &inputs.values)];
    let extras =
        [("lengths", &inputs.lengths), ("mask", &inputs.mask), ("segments", &inputs.segments)];
    example.extend(extras.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?))));
    Tensor::write_safetensors(&example, case.join("example.safetensors")).unwrap();
    case
}

/// `target/test-pytorch`, beside this test's own folder in `target`.
fn compare(folders: &[PathBuf]) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let python = target.join("test-pytorch/venv/bin/python");
    assert!(python.exists(), "no {}; `cargo xtask parity` makes it", python.display());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/reference.py");
    Command::new(python).arg(program).args(folders).output().unwrap()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
#[ignore = "needs PyTorch: `cargo xtask parity`"]
fn every_model_is_its_pytorch_form() {
    let folder = tempfile::tempdir().unwrap();
    let mut cases = Vec::new();
    // A script is a PyTorch form already.
    let ours = ModelKind::ALL.iter().filter(|kind| kind.name() != "script");
    for &kind in ours {
        for options in std::iter::once(json!({})).chain(option_sets(kind)) {
            let options = serde_json::from_value(options).unwrap();
            let model = kind.architecture(&options).unwrap();
            model.check().unwrap();
            let found = |data: &Data| if data.segments { SEGMENTS } else { 0 };
            let fitting = data_sets(&*model)
                .into_iter()
                .filter(|data| model.check_segments(found(data)).is_ok());
            cases.extend(fitting.map(|data| write(folder.path(), &*model, &data)));
        }
    }
    let output = compare(&cases);
    assert!(output.status.success(), "{}", said(&output));
    println!("{}", said(&output));
}

/// Changes the weights of a case after its forecasts were made.
fn with_weights(case: &Path, change: impl FnOnce(&mut Vec<(String, Tensor)>)) {
    let mut weights = Tensor::read_safetensors(case.join(WEIGHTS)).unwrap();
    change(&mut weights);
    Tensor::write_safetensors(&weights, case.join(WEIGHTS)).unwrap();
}

/// What the comparison is worth: it sees one weight of the wrong sign, one that is missing, and a model
/// that has no reference.
#[test]
#[ignore = "needs PyTorch: `cargo xtask parity`"]
fn what_is_not_the_pytorch_form_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let check = |change: fn(&Path), expected: &str| {
        let (options, heads) = (json!({ "hidden": 4 }), Heads::Value);
        let description = ModelDescription { kind: "mlp".into(), options, heads };
        let model = built_in(&description).unwrap();
        let data = data_sets(&*model).pop().unwrap();
        let case = write(folder.path(), &*model, &data);
        change(&case);
        let output = compare(&[case]);
        let said = said(&output);
        assert!(!output.status.success() && said.contains(expected), "{expected}: {said}");
    };
    let flipped = |case: &Path| {
        with_weights(case, |weights| {
            let head = weights.iter_mut().find(|(name, _)| name == "head.weight").unwrap();
            let mut first = head.1.flatten(0, -1).narrow(0, 0, 1);
            let _ = first.neg_();
        });
    };
    check(flipped, "forecasts differ");
    let left_out = |case: &Path| {
        with_weights(case, |weights| weights.retain(|(name, _)| name != "head.weight"));
    };
    check(left_out, "Missing key(s) in state_dict: \"head.weight\"");
    let unknown = |case: &Path| {
        let schema = fs::read_to_string(case.join("schema.json")).unwrap();
        fs::write(case.join("schema.json"), schema.replace("\"mlp\"", "\"oracle\"")).unwrap();
    };
    check(unknown, "model 'oracle' has no reference");
}
