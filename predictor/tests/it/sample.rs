//! A checkpoint, a model that says the last row, and a stream of three windows.

use arrow::array::RecordBatch;
use millstream_data::{
    BatchLayout, BatchSlot, Checksums, ColumnScaling, Curve, DataSchema, DeviceBatch, Extras, Fit,
    Padding, PanelSchema, Phase, Plan, Scaling, SeriesFits, Tag, TimeKind,
};
use millstream_model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, Parameters, Precision, Shape,
};
use millstream_predictor::{Contract, Output, Predictor};
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
pub(crate) const DAY: i64 = 86_400_000_000;

pub(crate) fn contract(series: Option<&str>, time_kind: TimeKind) -> Contract {
    let column = |name: &str, offset, scale| ColumnScaling::affine(name, offset, scale, offset);
    Contract {
        precision: Precision::default(),
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

pub(crate) fn find(description: &ModelDescription) -> Result<Box<dyn Architecture>, ModelError> {
    assert_eq!(*description, ModelDescription::of(&LastRow));
    Ok(Box::new(LastRow))
}

/// A tensor file with nothing in it.
const NO_WEIGHTS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

/// A checkpoint with this model.
pub(crate) fn checkpoint(folder: &Path, contract: &Contract) {
    fs::write(folder.join("model.safetensors"), NO_WEIGHTS).unwrap();
    let mut schema = serde_json::to_value(&contract.schema).unwrap();
    schema["model"] = serde_json::to_value(&contract.model).unwrap();
    fs::write(folder.join("schema.json"), schema.to_string()).unwrap();
    fs::write(folder.join("scaler.json"), serde_json::to_string(&contract.scaling).unwrap())
        .unwrap();
    seal(folder);
}

/// Writes the checksums of what the folder holds now.
pub(crate) fn seal(folder: &Path) {
    let mut checksums = Checksums::default();
    for name in ["model.safetensors", "schema.json", "scaler.json"] {
        checksums.add(name, &fs::read(folder.join(name)).unwrap());
    }
    fs::write(folder.join(Checksums::FILE), checksums.to_text()).unwrap();
}

pub(crate) fn plan(contract: &Contract) -> Arc<Plan> {
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
pub(crate) fn batches(plan: &Arc<Plan>) -> Vec<DeviceBatch> {
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

pub(crate) fn predictor(folder: &Path, output: Output) -> Predictor {
    Predictor::with_models(folder, output, Box::new(|_| {}), &find).unwrap()
}

pub(crate) fn predict(
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

pub(crate) fn read_parquet(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) const CHECKPOINT_FILES: [&str; 4] =
    ["checksums.txt", "model.safetensors", "scaler.json", "schema.json"];

/// AAA has a curve and an affine fit of its own; CCC is scaled as its columns are.
pub(crate) fn fitted_by_series() -> Contract {
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
