//! Trains on batches of your own making: a noisy wave, and the trainer that learns to continue it.
//!
//! Run with `cargo run --release -p millstream-trainer --example train_on_your_batches`. It writes
//! a run folder to the system's folder for temporary files and says where.

use millstream_data::{
    BatchLayout, BatchSlot, DeviceBatch, Extras, Phase, Plan, Tag, WindowCounts,
};
use millstream_stage::{Emit, Flow, Item, Pipeline, Pool, Source, Stage};
use millstream_trainer::{Progress, TrainSettings, Trainer};
use std::{convert::Infallible, error::Error, num::NonZeroUsize, sync::Arc};

const BATCH: usize = 64;
const LOOKBACK: usize = 24;
const EPOCHS: u32 = 3;
const WINDOWS: WindowCounts = WindowCounts {
    train: 2048,
    validation: 256,
    test: 256,
    short_series: 0,
    missing_target: 0,
    missing_reference: 0,
    missing_input: 0,
    across_border: 0,
    embargoed: 0,
    outside: 0,
};

/// The data: a wave with a little noise, the same for everybody.
fn wave(t: u64) -> f32 {
    let noise = (t.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f32 / (1u32 << 24) as f32;
    (t as f32 * 0.3).sin() + 0.1 * (noise - 0.5)
}

/// Starts the line once.
struct Begin(bool);
struct Go;
impl Item for Go {
    fn rows(&self) -> u64 {
        0
    }
    fn bytes(&self) -> u64 {
        0
    }
}
impl Source for Begin {
    type Out = Go;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Go>, Infallible> {
        Ok(std::mem::take(&mut self.0).then_some(Go))
    }
}

/// Fills a slot per batch, in the order a trainer expects.
struct Waves {
    plan: Arc<Plan>,
    slots: Pool<BatchSlot>,
}

impl Stage for Waves {
    type In = Go;
    type Out = DeviceBatch;
    type Error = Infallible;
    fn process(&mut self, _: Go, emit: &mut Emit<'_, DeviceBatch>) -> Result<Flow, Infallible> {
        let mut passes = vec![(0, Phase::Validation)];
        for epoch in 1..=EPOCHS {
            passes.extend([(epoch, Phase::Train), (epoch, Phase::Validation)]);
        }
        passes.push((EPOCHS, Phase::Test));
        for (epoch, phase) in passes {
            for index in 0..self.plan.batches(phase) {
                let Some(mut slot) = emit.take(&self.slots) else { return Ok(Flow::Stop) };
                self.fill(&mut slot, Tag { epoch, phase, index });
                if emit.send(DeviceBatch::Host(slot)) == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }
}

impl Waves {
    fn fill(&self, slot: &mut BatchSlot, tag: Tag) {
        // Validation follows training in time, and the test follows validation.
        let first = match tag.phase {
            Phase::Train => 0,
            Phase::Validation => WINDOWS.train,
            Phase::Test | Phase::Predict => WINDOWS.train + WINDOWS.validation,
        };
        let (parts, meta) = slot.parts_mut();
        meta.series.clear();
        meta.time.clear();
        for row in 0..BATCH {
            let start = first + tag.index * BATCH as u64 + row as u64;
            let end = start + LOOKBACK as u64;
            for (value, t) in parts.inputs[row * LOOKBACK..].iter_mut().zip(start..end) {
                *value = wave(t);
            }
            parts.last_known[row] = wave(end - 1);
            parts.targets[row] = wave(end);
            meta.series.push(0);
            meta.time.push(end as i64 - 1);
        }
        meta.tag = Some(tag);
        meta.plan = Some(Arc::clone(&self.plan));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let layout = BatchLayout {
        batch_size: BATCH,
        lookback: LOOKBACK,
        features: 1,
        horizon: 1,
        targets: 1,
        extras: Extras::NONE,
    };
    let slots = Pool::new((0..3).map(|_| BatchSlot::on_heap(layout)));
    let waves = Waves {
        plan: Arc::new(
            Plan::unscaled(&["wave"], &["wave"], LOOKBACK, BATCH).to_learn_from(WINDOWS, EPOCHS),
        ),
        slots,
    };

    let mut settings = TrainSettings::default();
    settings.epochs = EPOCHS;
    settings.batch_size = NonZeroUsize::new(BATCH).expect("not zero");
    settings.learning_rate = 5e-3;
    let run_dir = std::env::temp_dir().join(format!("millstream-wave-{}", std::process::id()));
    let show = |progress: &Progress| {
        if let Progress::EpochDone { epoch, validation_loss: Some(loss), .. } = progress {
            println!("epoch {epoch}: validation loss {loss:.5}");
        }
    };
    let trainer = Trainer::new(settings, &run_dir, Box::new(show))?;
    let outcome =
        Pipeline::from("begin", Begin(true), 1).then("waves", waves).run("train", trainer)?;

    let mse = |figures: Option<millstream_trainer::Figures>| figures.and_then(|f| f.overall.mse);
    println!("test mse: {:?}", mse(outcome.report.test));
    println!("the last known value reaches: {:?}", mse(outcome.report.baseline.last));
    println!("run folder: {}", run_dir.display());
    Ok(())
}
