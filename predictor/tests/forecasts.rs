//! What a predictor does with a checkpoint and a stream of batches.

#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{
        DataType, Date32Type, Float32Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    },
};
use millstream_data::{
    BatchLayout, BatchSlot, Checksums, ColumnScaling, Curve, DataSchema, DeviceBatch, Extras, Fit,
    Padding, PanelSchema, Phase, Plan, Scaling, SeriesFits, Tag, TargetKind, TimeKind,
};
use millstream_model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, Parameters, Shape,
};
use millstream_predictor::{Contract, Output, PredictError, Predictor, read_contract};
use millstream_stage::{Ending, Pool, Sink};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};
use tch::{Device, Kind, Tensor};

const LAYOUT: BatchLayout = BatchLayout {
    batch_size: 2,
    lookback: 3,
    features: 2,
    horizon: 2,
    targets: 2,
    extras: Extras::NONE,
};
const DAY: i64 = 86_400_000_000;

fn contract(series: Option<&str>, time_kind: TimeKind) -> Contract {
    let column = |name: &str, offset, scale| ColumnScaling::affine(name, offset, scale, offset);
    Contract {
        schema: DataSchema {
            series_column: series.map(Into::into),
            time_column: "day".into(),
            time_kind,
            features: vec!["a".into(), "b".into()],
            targets: vec!["y".into(), "z".into()],
            lookback: 3,
            horizon: 2,
            min_rows: 3,
            fingerprint: "training data".into(),
            ..DataSchema::default()
        },
        scaling: Scaling {
            method: "zscore".into(),
            features: vec![column("a", 0.0, 1.0), column("b", 0.0, 1.0)],
            targets: vec![column("y", 10.0, 2.0), column("z", -1.0, 0.5)],
            ..Scaling::default()
        },
        model: ModelDescription::of(&LastRow),
    }
}

/// A model that says: the last row's inputs, for both steps. Where windows are padded on the right, it
/// must be told their lengths.
#[derive(Debug)]
struct LastRow;

impl Architecture for LastRow {
    fn name(&self) -> &str {
        "last_row"
    }
    fn options(&self) -> serde_json::Value {
        serde_json::json!({})
    }
    fn build(&self, shape: &Shape, _: u64, _: Device) -> Result<Box<dyn Model>, ModelError> {
        let padded = shape.padding == Padding::Right;
        Ok(Box::new(Built { padded, parameters: Parameters::default() }))
    }
}

#[derive(Debug)]
struct Built {
    padded: bool,
    parameters: Parameters,
}

impl Model for Built {
    fn forward(&self, inputs: &Inputs, mode: Mode) -> Result<Tensor, ModelError> {
        assert_eq!(mode, Mode::Evaluate);
        let last = if self.padded {
            let lengths = inputs.lengths.as_ref().expect("padded windows have lengths");
            let at = lengths.f_to_kind(Kind::Int64)?.f_sub_scalar(1)?.f_view([-1, 1, 1])?;
            inputs.values.f_gather(1, &at.f_expand([-1, 1, 2], false)?, false)?
        } else {
            inputs.values.f_narrow(1, 2, 1)?
        };
        Ok(last.f_repeat([1, 2, 1])?)
    }
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }
    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.parameters
    }
}

fn find(description: &ModelDescription) -> Result<Box<dyn Architecture>, ModelError> {
    assert_eq!(*description, ModelDescription::of(&LastRow));
    Ok(Box::new(LastRow))
}

/// A tensor file with nothing in it.
const NO_WEIGHTS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

/// A checkpoint with this model.
fn checkpoint(folder: &Path, contract: &Contract) {
    fs::write(folder.join("model.safetensors"), NO_WEIGHTS).unwrap();
    let mut schema = serde_json::to_value(&contract.schema).unwrap();
    schema["model"] = serde_json::to_value(&contract.model).unwrap();
    fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    fs::write(folder.join("scaler.json"), serde_json::to_string(&contract.scaling).unwrap())
        .unwrap();
    seal(folder);
}

/// Writes the checksums of what the folder holds now.
fn seal(folder: &Path) {
    let mut checksums = Checksums::default();
    for name in ["model.safetensors", "schema.json", "scaler.json"] {
        checksums.add(name, &fs::read(folder.join(name)).unwrap());
    }
    fs::write(folder.join(Checksums::FILE), checksums.to_text()).unwrap();
}

fn plan(contract: &Contract) -> Arc<Plan> {
    let mut schema = contract.schema.clone();
    schema.fingerprint = "new data".into();
    let panel = PanelSchema {
        series_column: schema.series_column.clone(),
        time_column: schema.time_column.clone(),
        time_kind: schema.time_kind,
        columns: vec!["a".into(), "b".into(), "y".into(), "z".into()],
        kinds: Vec::new(),
        inputs: 2,
        series: vec!["AAA".into(), "BBB".into(), "CCC".into()],
        fingerprint: "new data".into(),
    };
    let scaling = contract.scaling.clone();
    let mut plan = Plan::new(schema, scaling, Arc::new(panel), 2).to_forecast(3);
    plan.windows.short_series = 1;
    Arc::new(plan)
}

/// Two batches of three windows: window `w` has last inputs (w, -w), outcomes 11 and -0.75, and none
/// for the second step of the last window. Where they are padded on the right they have 2, 1 and 1
/// real rows.
fn batches(plan: &Arc<Plan>) -> Vec<DeviceBatch> {
    let padded = plan.schema.padding == Padding::Right;
    let layout = BatchLayout { extras: Extras { padding: padded, segments: false }, ..LAYOUT };
    let slots = Pool::new([BatchSlot::on_heap(layout), BatchSlot::on_heap(layout)]);
    [&[0u32, 2][..], &[2]]
        .iter()
        .enumerate()
        .map(|(index, series)| {
            let mut slot = slots.take();
            let (parts, meta) = slot.parts_mut();
            parts.inputs.fill(99.0);
            // What came is not taken from the scaled targets.
            parts.targets.fill(f32::NAN);
            meta.lookback = if padded { series.len() } else { 3 };
            for row in 0..series.len() {
                let window = index * 2 + row;
                let length = if padded { [2, 1, 1][window] } else { 3 };
                let last = (row * meta.lookback + length - 1) * 2;
                parts.inputs[last] = window as f32;
                parts.inputs[last + 1] = -(window as f32);
                if padded {
                    parts.lengths[row] = length as f32;
                }
                meta.outcomes.extend([11.0, -0.75]);
                meta.outcomes.extend(if window == 2 { [f32::NAN; 2] } else { [11.0, -0.75] });
                let made = (window as i64 + 1) * DAY;
                meta.time.push(made);
                let second = (window < 2).then_some(made + 2 * DAY);
                meta.target_time.extend([Some(made + DAY), second]);
            }
            meta.series.extend_from_slice(series);
            meta.tag = Some(Tag { epoch: 0, phase: Phase::Predict, index: index as u64 });
            meta.plan = Some(Arc::clone(plan));
            DeviceBatch::Host(slot)
        })
        .collect()
}

fn predictor(folder: &Path, output: Output) -> Predictor {
    Predictor::with_models(folder, output, Box::new(|_| {}), &find).unwrap()
}

fn predict(
    contract: &Contract,
    folder: &Path,
    output: Output,
) -> millstream_predictor::PredictReport {
    checkpoint(folder, contract);
    let mut predictor = predictor(folder, output);
    for batch in batches(&plan(contract)) {
        let _flow = predictor.accept(batch).unwrap();
    }
    predictor.finish(Ending::Drained).unwrap()
}

fn read_parquet(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const CHECKPOINT_FILES: [&str; 4] =
    ["checksums.txt", "model.safetensors", "scaler.json", "schema.json"];

#[test]
fn forecasts_come_back_in_user_units() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    let contract = contract(Some("symbol"), TimeKind::Date);
    let report = predict(&contract, folder.path(), Output::Parquet(path.clone()));
    assert_eq!((report.rows, report.windows, report.series, report.skipped), (6, 3, 2, 1));
    assert_eq!(report.output.as_deref(), Some(path.as_path()));

    let table = read_parquet(&path);
    let columns: Vec<String> = table.schema().fields().iter().map(|f| f.name().clone()).collect();
    assert_eq!(
        columns,
        ["symbol", "day", "step", "target_time", "y_forecast", "y", "z_forecast", "z"]
    );
    let symbols: Vec<_> = table["symbol"].as_string::<i32>().iter().flatten().collect();
    assert_eq!(symbols, ["AAA", "AAA", "CCC", "CCC", "CCC", "CCC"]);
    assert_eq!(table["day"].as_primitive::<Date32Type>().values(), &[1, 1, 2, 2, 3, 3]);
    assert_eq!(table["step"].as_primitive::<Int32Type>().values(), &[1, 2, 1, 2, 1, 2]);
    let floats = |name: &str| -> Vec<Option<f32>> {
        table[name].as_primitive::<Float32Type>().iter().collect()
    };
    assert_eq!(floats("y_forecast"), [10.0, 10.0, 12.0, 12.0, 14.0, 14.0].map(Some));
    assert_eq!(floats("z_forecast"), [-1.0, -1.0, -1.5, -1.5, -2.0, -2.0].map(Some));
    assert_eq!(floats("y")[..5], [Some(11.0); 5]);
    assert_eq!(floats("z")[..5], [Some(-0.75); 5]);
    assert!(table["y"].is_null(5) && table["z"].is_null(5), "the last outcome is unknown");
}

/// AAA has a curve and an affine fit of its own; CCC is scaled as its columns are.
fn fitted_by_series() -> Contract {
    let mut contract = contract(Some("symbol"), TimeKind::Date);
    contract.scaling.targets[1].fit.curve = Curve::Quantiles(vec![-8.0, -1.0, 0.1, 4.0]);
    let targets = vec![
        Fit { curve: Curve::Log1p, offset: 1.0, scale: 0.5 },
        Fit { curve: Curve::Linear, offset: 100.0, scale: -20.0 },
    ];
    let fits = SeriesFits { features: vec![Fit::IDENTITY; 2], targets, ..SeriesFits::default() };
    contract.scaling.by_series.insert("AAA".into(), fits);
    contract
}

#[test]
fn forecasts_are_unscaled_by_the_fit_of_their_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    predict(&fitted_by_series(), folder.path(), Output::Parquet(path.clone()));
    let table = read_parquet(&path);
    let check = |name: &str, expected: [f64; 6]| {
        let found = table[name].as_primitive::<Float32Type>().values();
        for (row, (found, expected)) in found.iter().zip(expected).enumerate() {
            let close = (f64::from(*found) - expected).abs() < 1e-5;
            assert!(close, "row {row} of {name} is {found} instead of {expected}");
        }
    };
    // Scaled forecasts of y are 0, 1 and 2, those of z 0, -1 and -2.
    let e = std::f64::consts::E;
    check("y_forecast", [e - 1.0, e - 1.0, 12.0, 12.0, 14.0, 14.0]);
    let curve = &fitted_by_series().scaling.targets[1].fit;
    let (one, two) = (curve.invert(-1.0), curve.invert(-2.0));
    assert!(one > two && two > -8.0, "both lie between knots: {one}, {two}");
    check("z_forecast", [100.0, 100.0, one, one, two, two]);
}

#[test]
fn windows_padded_on_the_right_are_forecast_from_their_last_real_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.parquet");
    let mut contract = contract(Some("symbol"), TimeKind::Date);
    (contract.schema.padding, contract.schema.min_rows) = (Padding::Right, 1);
    predict(&contract, folder.path(), Output::Parquet(path.clone()));
    let table = read_parquet(&path);
    let found = table["y_forecast"].as_primitive::<Float32Type>();
    assert_eq!(found.values(), &[10.0, 10.0, 12.0, 12.0, 14.0, 14.0]);
}

#[test]
fn times_keep_their_kind_and_one_series_needs_no_column() {
    for (kind, expected) in [
        (TimeKind::Timestamp, DataType::Timestamp(TimeUnit::Microsecond, None)),
        (TimeKind::Integer, DataType::Int64),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("forecasts.parquet");
        predict(&contract(None, kind), folder.path(), Output::Parquet(path.clone()));
        let table = read_parquet(&path);
        assert_eq!(table.num_columns(), 7);
        assert_eq!(table["target_time"].data_type(), &expected);
        assert_eq!(table["day"].data_type(), &expected);
        let first = match kind {
            TimeKind::Integer => table["day"].as_primitive::<Int64Type>().value(0),
            _ => table["day"].as_primitive::<TimestampMicrosecondType>().value(0),
        };
        assert_eq!(first, DAY);
    }
}

#[test]
fn csv_has_a_header_and_leaves_the_unknown_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forecasts.csv");
    predict(&contract(Some("symbol"), TimeKind::Date), folder.path(), Output::Csv(path.clone()));
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 7);
    assert_eq!(lines[0], "symbol,day,step,target_time,y_forecast,y,z_forecast,z");
    assert_eq!(lines[1], "AAA,1970-01-02,1,1970-01-03,10.0,11.0,-1.0,-0.75");
    assert_eq!(lines[6], "CCC,1970-01-04,2,,14.0,,-2.0,");
}

#[test]
fn an_interrupted_or_dropped_predictor_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let output = || Output::Parquet(folder.path().join("forecasts.parquet"));
    for interrupt in [true, false] {
        let mut predictor = predictor(folder.path(), output());
        let first = batches(&plan(&contract)).swap_remove(0);
        let _flow = predictor.accept(first).unwrap();
        assert_eq!(names(folder.path()).len(), 5, "the partial file is there");
        if interrupt {
            let report = predictor.finish(Ending::Interrupted).unwrap();
            assert_eq!((report.windows, report.output), (2, None));
        } else {
            drop(predictor);
        }
        assert_eq!(names(folder.path()), CHECKPOINT_FILES);
    }
}

#[test]
fn only_a_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(Some("symbol"), TimeKind::Date));
    let refused = |path: &Path| {
        let output = Output::Csv(path.to_owned());
        Predictor::with_models(folder.path(), output, Box::new(|_| {}), &find)
            .unwrap_err()
            .to_string()
    };
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("folder")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("dangling")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
    for (name, what) in [("folder", "a folder"), ("dangling", "a link"), ("socket", "no regular")] {
        let error = refused(&place(name));
        assert!(error.contains(what) && error.contains("--output"), "{error}");
    }
    drop(socket);
    let null = refused(Path::new("/dev/null"));
    assert!(null.contains("/dev/null is no regular file"), "{null}");

    // What a link leads to is replaced, and the link stays.
    fs::write(place("real.csv"), "old").unwrap();
    std::os::unix::fs::symlink("real.csv", place("link.csv")).unwrap();
    predictor(folder.path(), Output::Csv(place("link.csv"))).finish(Ending::Drained).unwrap();
    assert!(place("link.csv").is_symlink());
    assert!(fs::read_to_string(place("real.csv")).unwrap().starts_with("symbol,day"));
}

#[test]
fn a_stream_without_batches_gives_an_empty_table() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(Some("symbol"), TimeKind::Date));
    let path = folder.path().join("forecasts.csv");
    let report =
        predictor(folder.path(), Output::Csv(path.clone())).finish(Ending::Drained).unwrap();
    assert_eq!(report.rows, 0);
    assert_eq!(
        fs::read_to_string(path).unwrap(),
        "symbol,day,step,target_time,y_forecast,y,z_forecast,z\n"
    );
}

fn check_refused(change: fn(&mut DataSchema), expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trained = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &trained);
    let mut other = trained.clone();
    change(&mut other.schema);
    let path = folder.path().join("forecasts.csv");
    let mut predictor = predictor(folder.path(), Output::Csv(path));
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

/// What the checksums vouch for is not what it should be.
fn check_damaged(file: &str, contents: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &contract(None, TimeKind::Date));
    fs::write(folder.path().join(file), contents).unwrap();
    seal(folder.path());
    let output = Output::Csv(folder.path().join("forecasts.csv"));
    let error = Predictor::with_models(folder.path(), output, Box::new(|_| {}), &find)
        .unwrap_err()
        .to_string();
    assert!(error.contains(file) && error.contains(expected), "{error}");
    assert!(error.len() < 400 && error.lines().count() == 1, "{error}");
    assert!(!error.contains("frame #") && !error.contains("Exception raised"), "{error}");
    assert_eq!(names(folder.path()), CHECKPOINT_FILES);
}

#[test]
fn two_that_write_the_same_file_leave_one_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let path = folder.path().join("forecasts.csv");
    // Left by a process that was killed.
    fs::write(folder.path().join(".forecasts.csv.partial-1"), "half").unwrap();
    let mut both = [(); 2].map(|()| predictor(folder.path(), Output::Csv(path.clone())));
    for predictor in &mut both {
        for batch in batches(&plan(&contract)) {
            let _flow = predictor.accept(batch).unwrap();
        }
    }
    let [first, second] = both;
    first.finish(Ending::Drained).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 7);
    second.finish(Ending::Drained).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(names(folder.path()).len(), 5, "{:?}", names(folder.path()));
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
        let output = Output::Csv(folder.path().join("forecasts.csv"));
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
    let output = Output::Csv(folder.path().join("forecasts.csv"));
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
    let output = Output::Csv(folder.path().join("forecasts.csv"));
    let mut predictor = predictor(folder.path(), output);
    let _flow = predictor.accept(batches(&plan(&contract)).swap_remove(0)).unwrap();
    assert_eq!(predictor.finish(Ending::Drained).unwrap().windows, 2);
}
