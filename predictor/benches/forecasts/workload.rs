//! What is forecast: a few batches of noise, again and again, for as many windows as a market has.

use crate::{checkpoint, harness::Failure};
use millstream_data::{
    BatchLayout, BatchSlot, ColumnScaling, DataSchema, DeviceBatch, Extras, PanelSchema, Phase,
    Plan, Scaling, Tag, TimeKind,
};
use millstream_model::Shape;
use millstream_stage::Pool;
use std::{num::NonZeroUsize, path::Path, sync::Arc};
use tch::Tensor;
use tempfile::TempDir;

/// Which batches, and which model forecasts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default model on batches as a market's table gives them: nearly all is arithmetic.
    Market,
    /// A model and batches so small that making and writing the table shows.
    Small,
}

/// As many as the ring has.
const SLOTS: usize = 3;

/// Series whose windows come in turns.
const SERIES: u32 = 500;

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Market, Kind::Small];

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Market => "[256, 60, 105], hidden 64",
            Kind::Small => "[256, 12, 8], hidden 16",
        }
    }

    pub(crate) fn case(self) -> &'static str {
        match self {
            Kind::Market => "forecasts",
            Kind::Small => "forecasts-small-model",
        }
    }

    fn layout(self) -> BatchLayout {
        let (lookback, features) = match self {
            Kind::Market => (60, 105),
            Kind::Small => (12, 8),
        };
        let (horizon, targets, extras) = (1, 1, Extras::NONE);
        BatchLayout { batch_size: 256, lookback, features, horizon, targets, extras }
    }

    pub(crate) fn hidden(self) -> NonZeroUsize {
        let hidden = match self {
            Kind::Market => 64,
            Kind::Small => 16,
        };
        NonZeroUsize::new(hidden).expect("none of them is 0")
    }

    fn batches(self, quick: bool) -> u64 {
        let all = match self {
            Kind::Market => 30,
            Kind::Small => 400,
        };
        if quick { all / 2 } else { all }
    }
}

/// A checkpoint, and batches that are ready for both sides.
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) batches: u64,
    /// Holds the checkpoint, and the file of forecasts.
    folder: TempDir,
    plan: Arc<Plan>,
    /// A pool for each slot, so that a slot comes back as it was filled.
    slots: [Pool<BatchSlot>; SLOTS],
    /// The same inputs as `[rows, lookback, features]`.
    inputs: [Tensor; SLOTS],
}

impl Work {
    pub(crate) fn new(kind: Kind, quick: bool) -> Result<Self, Failure> {
        let (layout, batches) = (kind.layout(), kind.batches(quick));
        let plan = Arc::new(plan(&layout, batches));
        let folder = tempfile::tempdir()?;
        let shape = Shape::of(&layout, &plan.schema, &plan.scaling);
        checkpoint::write(folder.path(), &plan, &shape, kind.hidden())?;
        let mut filled: [BatchSlot; SLOTS] = std::array::from_fn(|slot| fill(layout, slot, &plan));
        let inputs = filled.each_mut().map(inputs);
        let slots = filled.map(|slot| Pool::new([slot]));
        Ok(Work { kind, batches, folder, plan, slots, inputs })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn windows(&self) -> u64 {
        self.plan.predict
    }

    /// A batch of the stream, as it comes out of the ring.
    pub(crate) fn batch(&self, index: u64) -> DeviceBatch {
        let mut slot = self.slots[index as usize % SLOTS].take();
        slot.parts_mut().1.tag = Some(Tag { epoch: 0, phase: Phase::Predict, index });
        DeviceBatch::Host(slot)
    }

    pub(crate) fn inputs(&self, index: u64) -> &Tensor {
        &self.inputs[index as usize % SLOTS]
    }
}

fn plan(layout: &BatchLayout, batches: u64) -> Plan {
    let features: Vec<String> = (0..layout.features).map(|i| format!("f{i:03}")).collect();
    let column = |name: &String| ColumnScaling::affine(name, 0.0, 1.0, 0.0);
    let predict = batches * layout.batch_size as u64;
    let (series, time_kind) = (Some("symbol".to_owned()), TimeKind::Date);
    let schema = DataSchema {
        series_column: series.clone(),
        time_column: "day".into(),
        time_kind,
        features: features.clone(),
        targets: vec![features[0].clone()],
        lookback: layout.lookback,
        min_rows: layout.lookback,
        ..DataSchema::default()
    };
    let scaling = Scaling {
        method: "none".into(),
        features: features.iter().map(column).collect(),
        targets: vec![column(&features[0])],
        ..Scaling::default()
    };
    let panel = PanelSchema {
        series_column: series,
        time_column: "day".into(),
        time_kind,
        kinds: Vec::new(),
        inputs: features.len(),
        columns: features,
        series: (0..SERIES).map(|code| format!("{code:06}")).collect(),
        fingerprint: String::new(),
    };
    Plan::new(schema, scaling, Arc::new(panel), layout.batch_size).to_forecast(predict)
}

fn fill(layout: BatchLayout, number: usize, plan: &Arc<Plan>) -> BatchSlot {
    const DAY: i64 = 86_400_000_000;
    let mut slot = BatchSlot::on_heap(layout);
    let (parts, meta) = slot.parts_mut();
    let first = number * layout.values();
    for (value, place) in parts.inputs.iter_mut().zip(first as u64..) {
        *value = noise(place);
    }
    for (target, place) in parts.targets.iter_mut().zip(first as u64..) {
        *target = noise(!place);
    }
    // A series' windows follow each other, as they do in a line.
    let windows = 0..layout.batch_size as u32;
    meta.series = windows.clone().map(|window| window / 50 % SERIES).collect();
    meta.time = windows.map(|window| i64::from(window % 50) * DAY).collect();
    meta.plan = Some(Arc::clone(plan));
    slot
}

/// Between -1 and 1, by the finaliser of SplitMix64.
fn noise(place: u64) -> f32 {
    let value = place.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (value >> 40) as f32 / 8_388_608.0 - 1.0
}

fn inputs(slot: &mut BatchSlot) -> Tensor {
    let BatchLayout { batch_size, lookback, features, .. } = slot.layout();
    let shape = [batch_size, lookback, features].map(|size| size as i64);
    Tensor::from_slice(slot.parts_mut().0.inputs).view(shape)
}
