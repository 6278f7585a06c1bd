//! A bare training loop on libtorch: an LSTM with a linear head, as the trainer has it, that can
//! do each thing in the usual way and in the promised one.
//!
//! Two learners that differ in one thing start from the same weights and see the same batches, so
//! what they have learned after as many steps must be the same.

use crate::{
    embedding::{Embedding, SEGMENTS, embed},
    finding::Finding,
    harness::Failure,
    turns::{Gain, Turns},
    workload::{self, BATCH, FEATURES, Size, Windows, threads},
};
use millstream_data::{BatchSlot, DeviceBatch};
use millstream_model::BatchTensors;
use millstream_normalize::{Batches, Filler, Rank, SplitSettings, WindowIndex};
use millstream_stage::{Pool, thread_pool};
use rayon::ThreadPool;
use tch::{
    Device, Kind, Reduction, Tensor,
    nn::{self, Init, OptimizerConfig as _},
};

const HIDDEN: i64 = 64;

/// As many as the ring has.
const SLOTS: usize = 3;

/// Steps between two reads of the loss.
pub(crate) const INTERVAL: u64 = 20;

/// Batches that a validation looks at.
const VALIDATED: u64 = 8;

/// Where the initial hidden and cell state come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum States {
    /// Made for every batch.
    Fresh,
    /// Made once.
    Reused,
}

/// How often the loss is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// For the epoch's sum, and to be shown.
    TwicePerBatch,
    OncePerInterval,
}

/// What batches are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slots {
    Fresh,
    Reused,
}

/// How a learner does what it does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) states: States,
    pub(crate) embedding: Embedding,
    pub(crate) reads: Reads,
    pub(crate) slots: Slots,
}

impl Manner {
    /// All as promised.
    pub(crate) const PROMISED: Manner = Manner {
        states: States::Reused,
        embedding: Embedding::None,
        reads: Reads::OncePerInterval,
        slots: Slots::Reused,
    };
}

/// What is learned from.
pub(crate) struct Course {
    windows: Windows,
    train: Batches,
    validation: Batches,
    filler: Filler,
    slots: Pool<BatchSlot>,
    pool: ThreadPool,
}

impl Course {
    pub(crate) fn new(size: &Size) -> Result<Self, Failure> {
        let panel = workload::panel(size.series, size.rows / 2)?;
        let windows = Windows::new(&panel, &SplitSettings::default(), &workload::settings())?;
        let filler = windows.filler();
        Ok(Course {
            train: windows.epoch()?,
            validation: Batches::sorted(&windows.validation, BATCH, Rank::ALONE)?,
            slots: Pool::new((0..SLOTS).map(|_| BatchSlot::on_heap(filler.layout()))),
            pool: thread_pool("course", threads(1)),
            filler,
            windows,
        })
    }

    /// A batch to learn from.
    fn lesson(&mut self, step: u64, slots: Slots) -> Result<BatchTensors, Failure> {
        let fresh;
        let slots = match slots {
            Slots::Reused => &self.slots,
            Slots::Fresh => {
                fresh = Pool::new([BatchSlot::on_heap(self.filler.layout())]);
                &fresh
            }
        };
        let (windows, batch) = (&self.windows, step % self.train.len());
        let filling = Filling { filler: &mut self.filler, slots, pool: &self.pool };
        filling.fill(windows, &windows.train, &self.train, batch)
    }

    /// A batch to be judged by; evenly spaced over all of them.
    fn exam(&mut self, number: u64) -> Result<BatchTensors, Failure> {
        let batch = number * self.validation.len() / VALIDATED;
        let windows = &self.windows;
        let filling = Filling { filler: &mut self.filler, slots: &self.slots, pool: &self.pool };
        filling.fill(windows, &windows.validation, &self.validation, batch)
    }
}

/// What fills a batch.
struct Filling<'a> {
    filler: &'a mut Filler,
    slots: &'a Pool<BatchSlot>,
    pool: &'a ThreadPool,
}

impl Filling<'_> {
    fn fill(
        self,
        windows: &Windows,
        index: &WindowIndex,
        batches: &Batches,
        batch: u64,
    ) -> Result<BatchTensors, Failure> {
        let mut slot = self.slots.take();
        let (filler, rows) = (self.filler, &windows.rows);
        self.pool.install(|| filler.fill(&mut slot, rows, index, batches, batch));
        Ok(BatchTensors::new(DeviceBatch::Host(slot))?)
    }
}

/// A network that learns in some manner.
struct Learner {
    manner: Manner,
    recurrent: [Tensor; 4],
    head: [Tensor; 2],
    segments: Tensor,
    zeros: [Tensor; 2],
    optimizer: nn::Optimizer,
    steps: u64,
    /// The loss since it was last read.
    sum: Tensor,
    /// The loss as it was read.
    read: f64,
}

impl Learner {
    fn new(manner: Manner) -> Result<Self, Failure> {
        tch::manual_seed(42);
        let store = nn::VarStore::new(Device::Cpu);
        let root = store.root();
        let bound = 1.0 / (HIDDEN as f64).sqrt();
        let draw = |name: &str, shape: &[i64]| {
            root.var(name, shape, Init::Uniform { lo: -bound, up: bound })
        };
        let features = FEATURES as i64;
        let recurrent = [
            draw("weight_ih", &[4 * HIDDEN, features]),
            draw("weight_hh", &[4 * HIDDEN, HIDDEN]),
            draw("bias_ih", &[4 * HIDDEN]),
            draw("bias_hh", &[4 * HIDDEN]),
        ];
        let head = [draw("head_weight", &[1, HIDDEN]), draw("head_bias", &[1])];
        // One that is not used gets no gradient, and stays.
        let segments = draw("segments", &[SEGMENTS, features]);
        Ok(Learner {
            manner,
            recurrent,
            head,
            segments,
            zeros: states(),
            optimizer: nn::AdamW::default().build(&store, 1e-3)?,
            steps: 0,
            sum: Tensor::zeros([1], (Kind::Double, Device::Cpu)),
            read: 0.0,
        })
    }

    fn forward(&self, batch: &BatchTensors) -> Tensor {
        let inputs = embed(&batch.inputs.values, &self.segments, self.manner.embedding);
        let fresh;
        let states = match self.manner.states {
            States::Reused => &self.zeros,
            States::Fresh => {
                fresh = states();
                &fresh
            }
        };
        let rows = inputs.size()[0];
        let states = states.each_ref().map(|state| state.narrow(1, 0, rows));
        let (_, last, _) = inputs.lstm(&states, &self.recurrent, true, 1, 0.0, true, false, true);
        last.select(0, -1).linear(&self.head[0], Some(&self.head[1])).unsqueeze(1)
    }

    fn learn(&mut self, course: &mut Course) -> Result<(), Failure> {
        let batch = course.lesson(self.steps, self.manner.slots)?;
        self.steps += 1;
        let loss = self.forward(&batch).mse_loss(&batch.targets, Reduction::Mean);
        self.optimizer.backward_step(&loss);
        match self.manner.reads {
            Reads::TwicePerBatch => {
                self.read += loss.double_value(&[]);
                std::hint::black_box(loss.double_value(&[]));
            }
            Reads::OncePerInterval => {
                self.sum += loss.detach();
                if self.steps.is_multiple_of(INTERVAL) {
                    self.read += self.sum.double_value(&[0]);
                    let _ = self.sum.zero_();
                }
            }
        }
        Ok(())
    }

    fn validate(&self, course: &mut Course) -> Result<f64, Failure> {
        let _guard = tch::no_grad_guard();
        let mut sum = 0.0;
        for number in 0..VALIDATED {
            let batch = course.exam(number)?;
            let loss = self.forward(&batch).mse_loss(&batch.targets, Reduction::Mean);
            sum += loss.double_value(&[]);
        }
        Ok(sum / VALIDATED as f64)
    }
}

/// Zeros for the hidden and the cell state of a full batch.
fn states() -> [Tensor; 2] {
    [(), ()].map(|()| Tensor::zeros([1, BATCH as i64, HIDDEN], (Kind::Float, Device::Cpu)))
}

/// What two manners of training show.
pub(crate) struct Trained {
    pub(crate) gain: Gain,
    pub(crate) losses: [f64; 2],
    pub(crate) step_ms: f64,
    /// What was trained, in words.
    pub(crate) how: String,
}

/// Trains in both manners, in turns.
pub(crate) fn train(size: &Size, manners: [Manner; 2]) -> Result<Trained, Failure> {
    let mut course = Course::new(size)?;
    let mut learners = [Learner::new(manners[0])?, Learner::new(manners[1])?];
    let names = ["usual training", "promised training"];
    // A step a round: what else the machine does then hits both alike.
    let turns = Turns::take(&names, size.lessons, |way| learners[way].learn(&mut course))?;
    let [before, after] = &learners;
    let losses = [before.validate(&mut course)?, after.validate(&mut course)?];
    let lessons = size.lessons;
    Ok(Trained {
        gain: turns.gain(0, 1),
        losses,
        step_ms: turns.median(1) * 1e3,
        how: format!(
            "LSTM {FEATURES}→{HIDDEN}, batches of {BATCH} windows, CPU, 1 thread, {lessons} \
             steps in turns"
        ),
    })
}

impl Trained {
    /// A gain in training as a whole.
    pub(crate) fn finding(self, how: &str, reason: &str) -> Finding {
        Finding {
            measured: Some(self.gain.percent()),
            losses: Some(self.losses),
            how: format!("{how}; {}; {}", self.how, self.gain.percent_range()),
            reason: Some(reason.to_owned()),
        }
    }
}
