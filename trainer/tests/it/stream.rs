//! A synthetic stream: windows whose target is the mean of the last row's inputs.

use millstream_stage::{
    BatchLayout, BatchSlot, ColumnScaling, DataSchema, DeviceBatch, PanelSchema, Phase, Plan, Pool,
    Scaling, Sink, Tag, TimeKind, WindowCounts,
};
use millstream_trainer::{TrainError, TrainSettings, Trainer};
use std::{num::NonZeroUsize, path::Path, sync::Arc};

const FEATURES: usize = 3;
const LOOKBACK: usize = 4;
pub(crate) const BATCH: usize = 16;
/// Series that share each time.
const SERIES: u64 = 5;

pub(crate) struct Stream {
    pub(crate) plan: Arc<Plan>,
    pub(crate) layout: BatchLayout,
    slots: Pool<BatchSlot>,
}

pub(crate) fn settings() -> TrainSettings {
    let mut settings = TrainSettings {
        batch_size: NonZeroUsize::new(BATCH).unwrap(),
        learning_rate: 1e-2,
        ..TrainSettings::default()
    };
    settings.model_options.hidden = NonZeroUsize::new(16).unwrap();
    settings
}

pub(crate) fn trainer(settings: TrainSettings, run: &Path) -> Trainer {
    Trainer::new(settings, run.into(), Box::new(|_| {})).unwrap()
}

pub(crate) fn resumed(settings: TrainSettings, run: &Path) -> Trainer {
    Trainer::resume(settings, run.into(), Box::new(|_| {})).unwrap()
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
        let (features, targets) = (vec!["a".into(), "b".into(), "c".into()], vec!["y".into()]);
        let scaled = |name: &String| ColumnScaling {
            name: name.clone(),
            offset: 0.0,
            scale: 2.0,
            mean: 0.0,
        };
        let scaling = Scaling {
            method: "zscore".into(),
            features: features.iter().map(scaled).collect(),
            targets: targets.iter().map(scaled).collect(),
        };
        let plan = Plan {
            schema: DataSchema {
                series_column: Some("symbol".into()),
                time_column: "day".into(),
                time_kind: TimeKind::Integer,
                features: features.clone(),
                targets,
                lookback: LOOKBACK,
                horizon: 1,
                test_start: 0,
                fingerprint: "synthetic".into(),
            },
            scaling,
            panel: Arc::new(PanelSchema {
                series_column: Some("symbol".into()),
                time_column: "day".into(),
                time_kind: TimeKind::Integer,
                columns: features,
                inputs: FEATURES,
                series: (0..SERIES).map(|i| i.to_string()).collect(),
                fingerprint: "synthetic".into(),
            }),
            windows: WindowCounts { train, validation, test, ..WindowCounts::default() },
            batch_size,
            epochs,
            drop_last: false,
            predict: 0,
        };
        let layout = BatchLayout {
            batch_size,
            lookback: LOOKBACK,
            features: FEATURES,
            horizon: 1,
            targets: 1,
        };
        let slots = Pool::new([BatchSlot::on_heap(layout), BatchSlot::on_heap(layout)]);
        Stream { plan: Arc::new(plan), layout, slots }
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
        let start = tag.index * self.layout.batch_size as u64;
        let end = (start + self.layout.batch_size as u64).min(windows);
        let mut slot = self.slots.try_take().expect("the trainer gave every slot back");
        let (parts, meta) = slot.parts_mut();
        meta.series.clear();
        meta.time.clear();
        for (row, position) in (start..end).enumerate() {
            // A different order in each epoch, as after a shuffle.
            let window = match tag.phase {
                Phase::Train => (position * 7 + u64::from(tag.epoch) * 13) % windows,
                _ => position,
            };
            let inputs = &mut parts.inputs[row * LOOKBACK * FEATURES..][..LOOKBACK * FEATURES];
            for (i, value) in inputs.iter_mut().enumerate() {
                *value = noise((base + window) * 64 + i as u64);
            }
            let last_row = &inputs[(LOOKBACK - 1) * FEATURES..];
            parts.targets[row] = last_row.iter().sum::<f32>() / FEATURES as f32;
            // The naive forecast knows nothing here, and now and then not even that.
            parts.last[row] = if window % 4 == 0 { f32::NAN } else { 0.5 };
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
