//! What is learned: a few batches of noise with something in it to find, again and again.

use crate::{harness::Failure, linear::Linear};
use millstream_data::{
    BatchLayout, BatchSlot, DeviceBatch, Extras, Phase, Plan, Tag, WindowCounts,
};
use millstream_model::{Architecture, LstmOptions, ModelKind, ModelOptions, Shape};
use millstream_stage::Pool;
use millstream_trainer::TrainSettings;
use std::{num::NonZeroUsize, sync::Arc};
use tch::{Device, Tensor};

/// Which batches, and which network learns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default model on batches as a market's table gives them: nearly all is arithmetic.
    Market,
    /// A model and batches so small that what surrounds the arithmetic shows.
    Small,
    /// A step of next to no arithmetic: what surrounds it is nearly all of it.
    Linear,
    /// The batches of a market again, with other models.
    Gru,
    Transformer,
    /// Small batches that forecast a lot, with the models that are mostly calls.
    Nlinear,
    Dlinear,
    Mlp,
}

/// As many as the ring has: nobody learns from the one that is warm.
pub(crate) const SLOTS: usize = 3;

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Market,
        Kind::Small,
        Kind::Linear,
        Kind::Gru,
        Kind::Transformer,
        Kind::Nlinear,
        Kind::Dlinear,
        Kind::Mlp,
    ];

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Market => "[256, 60, 105], hidden 64",
            Kind::Small => "[32, 12, 8], hidden 16",
            Kind::Linear => "[32, 336, 7], linear",
            Kind::Gru => "[256, 60, 105], gru",
            Kind::Transformer => "[256, 60, 105], transformer",
            Kind::Nlinear => "[32, 336, 7] to 96, nlinear",
            Kind::Dlinear => "[32, 336, 7] to 96, dlinear",
            Kind::Mlp => "[32, 336, 7] to 96, mlp",
        }
    }

    pub(crate) fn case(self) -> &'static str {
        match self {
            Kind::Market => "steps",
            Kind::Small => "steps-small-model",
            Kind::Linear => "steps-linear-model",
            Kind::Gru => "steps-gru",
            Kind::Transformer => "steps-transformer",
            Kind::Nlinear => "steps-nlinear",
            Kind::Dlinear => "steps-dlinear",
            Kind::Mlp => "steps-mlp",
        }
    }

    fn layout(self) -> BatchLayout {
        let (batch_size, lookback, features) = match self {
            Kind::Market | Kind::Gru | Kind::Transformer => (256, 60, 105),
            Kind::Small => (32, 12, 8),
            Kind::Linear | Kind::Nlinear | Kind::Dlinear | Kind::Mlp => (32, 336, 7),
        };
        let (horizon, targets) = match self {
            Kind::Nlinear | Kind::Dlinear | Kind::Mlp => (96, features),
            _ => (1, 1),
        };
        let extras = Extras::NONE;
        BatchLayout { batch_size, lookback, features, horizon, targets, extras }
    }

    /// Which of ours learns; `None` for the one that is made here.
    pub(crate) fn model(self) -> Option<ModelKind> {
        match self {
            Kind::Market | Kind::Small => Some(ModelKind::Lstm),
            Kind::Linear => None,
            Kind::Gru => Some(ModelKind::Gru),
            Kind::Transformer => Some(ModelKind::Transformer),
            Kind::Nlinear => Some(ModelKind::Nlinear),
            Kind::Dlinear => Some(ModelKind::Dlinear),
            Kind::Mlp => Some(ModelKind::Mlp),
        }
    }

    /// The width of a recurrent network.
    pub(crate) fn hidden(self) -> Option<NonZeroUsize> {
        match self {
            Kind::Market | Kind::Gru => Some(LstmOptions::default().hidden),
            Kind::Small => Some(const { NonZeroUsize::new(16).expect("not zero") }),
            _ => None,
        }
    }

    fn timed_steps(self, quick: bool) -> u64 {
        match (self, quick) {
            (Kind::Market, false) => 16,
            (Kind::Market, true) => 8,
            (Kind::Small, false) => 600,
            (Kind::Small, true) => 300,
            (Kind::Linear, false) => 4000,
            (Kind::Linear, true) => 2000,
            (Kind::Gru | Kind::Transformer, false) => 8,
            (Kind::Gru | Kind::Transformer, true) => 4,
            (Kind::Nlinear | Kind::Dlinear | Kind::Mlp, false) => 1000,
            (Kind::Nlinear | Kind::Dlinear | Kind::Mlp, true) => 500,
        }
    }
}

/// Batches that are ready, for both sides.
pub(crate) struct Work {
    pub(crate) kind: Kind,
    pub(crate) layout: BatchLayout,
    pub(crate) settings: TrainSettings,
    /// Steps that are timed. One more comes before, for what is only made once, and one after, at
    /// which the epoch ends and the weights are saved.
    pub(crate) timed_steps: u64,
    plan: Arc<Plan>,
    /// A pool for each slot, so that a slot comes back as it was filled.
    slots: [Pool<BatchSlot>; SLOTS],
    /// The same values as `[rows, lookback, features]` and `[rows, horizon, targets]`.
    tensors: [(Tensor, Tensor); SLOTS],
}

impl Work {
    pub(crate) fn new(kind: Kind, quick: bool) -> Self {
        let layout = kind.layout();
        let timed_steps = kind.timed_steps(quick);
        let mut settings = TrainSettings::default();
        settings.epochs = 1;
        settings.batch_size =
            NonZeroUsize::new(layout.batch_size).expect("no layout is without windows");
        settings.model = kind.model().unwrap_or_default();
        if let (Some(ModelKind::Lstm), Some(hidden)) = (kind.model(), kind.hidden()) {
            let mut model = LstmOptions::default();
            model.hidden = hidden;
            settings.model_options = ModelOptions::of(&model);
        }
        if layout.lookback == 336 {
            // Thousands of inputs that all move by the rate overshoot, and then a last bit grows.
            settings.learning_rate = 1e-5;
        }
        let plan = Arc::new(plan(&layout, timed_steps + 2));
        let mut filled: [BatchSlot; SLOTS] = std::array::from_fn(|slot| fill(layout, slot, &plan));
        let tensors = filled.each_mut().map(tensors);
        let slots = filled.map(|slot| Pool::new([slot]));
        Work { kind, layout, settings, timed_steps, plan, slots, tensors }
    }

    /// What learns.
    pub(crate) fn architecture(&self) -> Result<Box<dyn Architecture>, Failure> {
        Ok(match self.kind.model() {
            Some(_) => self.settings.architecture()?,
            None => Box::new(Linear),
        })
    }

    /// The names of its weights, in the order in which the floor takes them.
    pub(crate) fn weight_names(&self) -> Result<Vec<String>, Failure> {
        let shape = Shape::of(&self.layout, &self.plan.schema, &self.plan.scaling);
        let model = self.architecture()?.build(&shape, 0, Device::Cpu)?;
        Ok(model.parameters().names.clone())
    }

    /// Steps in all.
    pub(crate) fn steps(&self) -> u64 {
        self.timed_steps + 2
    }

    pub(crate) fn timed_windows(&self) -> u64 {
        self.timed_steps * self.layout.batch_size as u64
    }

    /// A batch of the epoch, as it comes out of the ring.
    pub(crate) fn batch(&self, index: u64) -> DeviceBatch {
        let mut slot = self.slots[index as usize % SLOTS].take();
        let meta = slot.parts_mut().1;
        meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index });
        meta.plan = Some(Arc::clone(&self.plan));
        DeviceBatch::Host(slot)
    }

    /// Inputs and targets of a batch of the epoch.
    pub(crate) fn tensors(&self, index: u64) -> &(Tensor, Tensor) {
        &self.tensors[index as usize % SLOTS]
    }
}

fn plan(layout: &BatchLayout, batches: u64) -> Plan {
    let features: Vec<String> = (0..layout.features).map(|i| format!("f{i:03}")).collect();
    let features: Vec<&str> = features.iter().map(String::as_str).collect();
    let train = batches * layout.batch_size as u64;
    let windows = WindowCounts { train, ..WindowCounts::default() };
    let targets = &features[..layout.targets];
    let mut plan = Plan::unscaled(&features, targets, layout.lookback, layout.batch_size);
    plan.schema.horizon = layout.horizon;
    plan.to_learn_from(windows, 1)
}

/// Noise; the targets are half the last row's first values.
fn fill(layout: BatchLayout, number: usize, plan: &Arc<Plan>) -> BatchSlot {
    let mut slot = BatchSlot::on_heap(layout);
    let (parts, meta) = slot.parts_mut();
    let first = (number * layout.values()) as u64;
    for (value, place) in parts.inputs.iter_mut().zip(first..) {
        *value = noise(place);
    }
    let windows = parts.inputs.chunks_exact(layout.window());
    let labels = parts.targets.chunks_exact_mut(layout.horizon * layout.targets);
    let lasts = parts.last_known.chunks_exact_mut(layout.targets);
    for ((labels, last), window) in labels.zip(lasts).zip(windows) {
        let row = &window[layout.window() - layout.features..];
        last.copy_from_slice(&row[..layout.targets]);
        for (label, value) in labels.iter_mut().zip(last.iter().cycle()) {
            *label = *value / 2.0;
        }
    }
    meta.series = vec![0; layout.batch_size];
    meta.time = (0..layout.batch_size as i64).collect();
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

fn tensors(slot: &mut BatchSlot) -> (Tensor, Tensor) {
    let BatchLayout { batch_size, lookback, features, horizon, targets, .. } = slot.layout();
    let (parts, _) = slot.parts_mut();
    let size = |value: usize| value as i64;
    let inputs = Tensor::from_slice(parts.inputs);
    let inputs = inputs.view([size(batch_size), size(lookback), size(features)]);
    let labels = [size(batch_size), size(horizon), size(targets)];
    (inputs, Tensor::from_slice(parts.targets).view(labels))
}
