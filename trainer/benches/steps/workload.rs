//! What is learned: a few batches of noise with something in it to find, again and again.

use millstream_data::{
    BatchLayout, BatchSlot, DeviceBatch, Extras, Phase, Plan, Tag, WindowCounts,
};
use millstream_model::{LstmOptions, ModelOptions};
use millstream_stage::Pool;
use millstream_trainer::TrainSettings;
use std::{num::NonZeroUsize, sync::Arc};
use tch::Tensor;

/// Which batches, and which network learns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The default model on batches as a market's table gives them: nearly all is arithmetic.
    Market,
    /// A model and batches so small that what surrounds the arithmetic shows.
    Small,
    /// A step of next to no arithmetic: what surrounds it is nearly all of it.
    Linear,
}

/// What learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// An LSTM of this width, and a linear head on its last hidden state.
    Lstm(NonZeroUsize),
    /// One linear layer over the whole window.
    Linear,
}

/// As many as the ring has: nobody learns from the one that is warm.
pub(crate) const SLOTS: usize = 3;

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Market, Kind::Small, Kind::Linear];

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Market => "[256, 60, 105], hidden 64",
            Kind::Small => "[32, 12, 8], hidden 16",
            Kind::Linear => "[32, 336, 7], linear",
        }
    }

    pub(crate) fn case(self) -> &'static str {
        match self {
            Kind::Market => "steps",
            Kind::Small => "steps-small-model",
            Kind::Linear => "steps-linear-model",
        }
    }

    fn layout(self) -> BatchLayout {
        let (batch_size, lookback, features) = match self {
            Kind::Market => (256, 60, 105),
            Kind::Small => (32, 12, 8),
            Kind::Linear => (32, 336, 7),
        };
        let (horizon, targets, extras) = (1, 1, Extras::NONE);
        BatchLayout { batch_size, lookback, features, horizon, targets, extras }
    }

    pub(crate) fn network(self) -> Network {
        match self {
            Kind::Market => Network::Lstm(LstmOptions::default().hidden),
            Kind::Small => Network::Lstm(const { NonZeroUsize::new(16).expect("not zero") }),
            Kind::Linear => Network::Linear,
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
    /// The same values as `[rows, lookback, features]` and `[rows, 1, 1]`.
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
        match kind.network() {
            Network::Lstm(hidden) => {
                let mut model = LstmOptions::default();
                model.hidden = hidden;
                settings.model_options = ModelOptions::of(&model);
            }
            // Thousands of inputs that all move by the rate overshoot, and then a last bit grows.
            Network::Linear => settings.learning_rate = 1e-5,
        }
        let plan = Arc::new(plan(&layout, timed_steps + 2));
        let mut filled: [BatchSlot; SLOTS] = std::array::from_fn(|slot| fill(layout, slot, &plan));
        let tensors = filled.each_mut().map(tensors);
        let slots = filled.map(|slot| Pool::new([slot]));
        Work { kind, layout, settings, timed_steps, plan, slots, tensors }
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
    let plan = Plan::unscaled(&features, &features[..1], layout.lookback, layout.batch_size);
    plan.to_learn_from(windows, 1)
}

/// Noise; the target is half the last row's first value.
fn fill(layout: BatchLayout, number: usize, plan: &Arc<Plan>) -> BatchSlot {
    let mut slot = BatchSlot::on_heap(layout);
    let (parts, meta) = slot.parts_mut();
    let first = (number * layout.values()) as u64;
    for (value, place) in parts.inputs.iter_mut().zip(first..) {
        *value = noise(place);
    }
    let windows = parts.inputs.chunks_exact(layout.window());
    for ((target, last), window) in parts.targets.iter_mut().zip(parts.last_known).zip(windows) {
        *last = window[layout.window() - layout.features];
        *target = *last / 2.0;
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
    let BatchLayout { batch_size, lookback, features, .. } = slot.layout();
    let (parts, _) = slot.parts_mut();
    let size = |value: usize| value as i64;
    let inputs = Tensor::from_slice(parts.inputs);
    let inputs = inputs.view([size(batch_size), size(lookback), size(features)]);
    (inputs, Tensor::from_slice(parts.targets).view([size(batch_size), 1, 1]))
}
