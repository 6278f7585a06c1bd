//! A synthetic stream: windows whose target is the mean of the last row's inputs.

use millstream_data::{
    BatchCounts, BatchLayout, BatchSlot, ColumnScaling, DataSchema, DeviceBatch, Extras, Padding,
    PanelSchema, Phase, Plan, Scaling, Tag, TimeKind, WindowCounts,
};
use millstream_model::{
    LstmOptions, Model, ModelDescription, ModelOptions, Shape, TensorFile, built_in,
};
use millstream_stage::{Pool, Sink};
use millstream_trainer::{TrainError, TrainSettings, Trainer};
use std::{num::NonZeroUsize, path::Path, sync::Arc};
use tch::Device;

pub(crate) const FEATURES: usize = 3;
pub(crate) const LOOKBACK: usize = 4;
pub(crate) const BATCH: usize = 16;
/// Series that share each time.
const SERIES: u64 = 5;

pub(crate) struct Stream {
    pub(crate) plan: Arc<Plan>,
    pub(crate) layout: BatchLayout,
    slots: Pool<BatchSlot>,
}

pub(crate) fn settings() -> TrainSettings {
    let mut settings = TrainSettings::default();
    settings.batch_size = NonZeroUsize::new(BATCH).unwrap();
    settings.learning_rate = 1e-2;
    let mut options = LstmOptions::default();
    options.hidden = NonZeroUsize::new(16).unwrap();
    settings.model_options = ModelOptions::of(&options);
    settings
}

pub(crate) fn trainer(settings: TrainSettings, run: &Path) -> Trainer {
    Trainer::new(settings, run, Box::new(|_| {})).unwrap()
}

pub(crate) fn resumed(settings: TrainSettings, run: &Path) -> Trainer {
    Trainer::resume(settings, run, Box::new(|_| {})).unwrap()
}

/// The model of a checkpoint, for batches of this stream.
pub(crate) fn saved_model(checkpoint: &Path, stream: &Stream) -> Box<dyn Model> {
    let read = |name: &str| std::fs::read(checkpoint.join(name)).unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&read("schema.json")).unwrap();
    let description: ModelDescription = serde_json::from_value(schema["model"].clone()).unwrap();
    let shape = Shape::of(&stream.layout, &stream.plan.schema, &stream.plan.scaling);
    let mut model = built_in(&description).unwrap().build(&shape, 0, Device::Cpu).unwrap();
    let name = "model.safetensors";
    let mut file = TensorFile::parse(checkpoint.join(name), &read(name)).unwrap();
    model.parameters_mut().load(&mut file).unwrap();
    model
}

impl Stream {
    pub(crate) fn new(epochs: u32, windows: [u64; 3]) -> Self {
        Stream::with_batches_of(BATCH, epochs, windows)
    }

    pub(crate) fn with_batches_of(
        batch_size: usize,
        epochs: u32,
        [train, validation, test]: [u64; 3],
    ) -> Self {
        let (features, targets) = (vec!["a".into(), "b".into(), "y".into()], vec!["y".into()]);
        let scaled = |name: &String| ColumnScaling::affine(name.clone(), 0.0, 2.0, 0.0);
        let scaling = Scaling {
            method: "zscore".into(),
            features: features.iter().map(scaled).collect(),
            targets: targets.iter().map(scaled).collect(),
            ..Scaling::default()
        };
        let windows = WindowCounts { train, validation, test, ..WindowCounts::default() };
        let schema = DataSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            features: features.clone(),
            targets,
            lookback: LOOKBACK,
            min_rows: LOOKBACK,
            fingerprint: "synthetic".into(),
            ..DataSchema::default()
        };
        let panel = PanelSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            time_kind: TimeKind::Integer,
            columns: features,
            kinds: Vec::new(),
            inputs: FEATURES,
            series: (0..SERIES).map(|i| i.to_string()).collect(),
            fingerprint: "synthetic".into(),
        };
        let plan = Plan::new(schema, scaling, Arc::new(panel), batch_size);
        let plan = plan.to_learn_from(windows, epochs);
        let layout = BatchLayout {
            batch_size,
            lookback: LOOKBACK,
            features: FEATURES,
            horizon: 1,
            targets: 1,
            extras: Extras::NONE,
        };
        let slots = Pool::new([BatchSlot::on_heap(layout), BatchSlot::on_heap(layout)]);
        Stream { plan: Arc::new(plan), layout, slots }
    }

    /// The same stream with a time's windows in each batch: five, or what is left.
    pub(crate) fn by_time(mut self) -> Self {
        let mut plan = (*self.plan).clone();
        plan.by_time = true;
        plan.batches = BatchCounts::even(&plan.windows, 0, SERIES as usize);
        self.plan = Arc::new(plan);
        self
    }

    /// The same stream with windows of one to four rows, padded on the right.
    pub(crate) fn padded(mut self) -> Self {
        let mut plan = (*self.plan).clone();
        (plan.schema.padding, plan.schema.min_rows) = (Padding::Right, 1);
        self.plan = Arc::new(plan);
        self.layout.extras.padding = true;
        let slot = || BatchSlot::on_heap(self.layout);
        self.slots = Pool::new([slot(), slot()]);
        self
    }

    /// Real rows of a window.
    fn length(&self, window: u64) -> usize {
        if self.layout.extras.padding { 1 + window as usize % LOOKBACK } else { LOOKBACK }
    }

    /// Every tag of the stream, in order.
    pub(crate) fn tags(&self) -> Vec<Tag> {
        let mut passes = vec![(0, Phase::Validation)];
        for epoch in 1..=self.plan.epochs {
            passes.extend([(epoch, Phase::Train), (epoch, Phase::Validation)]);
        }
        passes.push((self.plan.epochs, Phase::Test));
        let batches = |phase| 0..self.plan.batches(phase);
        passes
            .into_iter()
            .flat_map(|(epoch, phase)| batches(phase).map(move |index| Tag { epoch, phase, index }))
            .collect()
    }

    pub(crate) fn batch(&self, tag: Tag) -> DeviceBatch {
        let counts = self.plan.windows;
        let (windows, base) = match tag.phase {
            Phase::Train => (counts.train, 0),
            Phase::Validation => (counts.validation, 1 << 20),
            Phase::Test | Phase::Predict => (counts.test, 1 << 21),
        };
        let size = if self.plan.by_time { SERIES } else { self.layout.batch_size as u64 };
        let start = tag.index * size;
        let positions = start..(start + size).min(windows);
        // A different order in each epoch, as after a shuffle.
        let at = |position| match tag.phase {
            Phase::Train => (position * 7 + u64::from(tag.epoch) * 13) % windows,
            _ => position,
        };
        let lookback = positions.clone().map(|position| self.length(at(position))).max().unwrap();
        let mut slot = self.slots.try_take().expect("the trainer gave every slot back");
        let (parts, meta) = slot.parts_mut();
        meta.series.clear();
        meta.time.clear();
        meta.lookback = lookback;
        for (row, position) in positions.enumerate() {
            let window = at(position);
            let length = self.length(window);
            let inputs = &mut parts.inputs[row * lookback * FEATURES..][..lookback * FEATURES];
            let (inputs, padding) = inputs.split_at_mut(length * FEATURES);
            padding.fill(0.0);
            for (i, value) in inputs.iter_mut().enumerate() {
                *value = noise((base + window) * 64 + i as u64);
            }
            if self.layout.extras.padding {
                parts.lengths[row] = length as f32;
                for (i, real) in parts.mask[row * lookback..][..lookback].iter_mut().enumerate() {
                    *real = f32::from(u8::from(i < length));
                }
            }
            let last_row = &inputs[(length - 1) * FEATURES..];
            parts.targets[row] = last_row.iter().sum::<f32>() / FEATURES as f32;
            // The naive forecast knows nothing here, and now and then not even that.
            parts.last_known[row] = if window % 4 == 0 { f32::NAN } else { 0.5 };
            meta.series.push((window % SERIES) as u32);
            meta.time.push((window / SERIES) as i64);
        }
        meta.tag = Some(tag);
        meta.plan = Some(Arc::clone(&self.plan));
        DeviceBatch::Host(slot)
    }

    pub(crate) fn feed(&self, trainer: &mut Trainer, tags: &[Tag]) -> Result<(), TrainError> {
        for tag in tags {
            let _flow = trainer.accept(self.batch(*tag))?;
        }
        Ok(())
    }
}

/// A number in [-1, 1) that depends on `seed` alone.
fn noise(seed: u64) -> f32 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z >> 40) as f32 / (1u32 << 23) as f32) - 1.0
}
