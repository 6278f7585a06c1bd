//! Copies to the device: waited for, or made while it computes. On the simulated CUDA driver,
//! whose clock is virtual: the figures follow from the device that is assumed.

use crate::{
    finding::Finding,
    harness::Failure,
    workload::{BATCH, FEATURES},
};
use fake_cuda::{Code, Config, Control, Kernel, Simulator};
use millstream_data::{BatchLayout, BatchSlot, DeviceBatch, DeviceFault, Extras, Phase, Tag};
use millstream_prefetch::{Consumer, CudaError, DeviceChoice, Ring, choose};
use millstream_stage::{Emit, Ending, Flow, Item, Lease, Pipeline, Pool, Sink, Source, Stage};
use std::{convert::Infallible, num::NonZeroUsize};

/// PCIe 4.0 with 16 lanes, in round numbers.
const DEVICE: fn() -> Config =
    || Config { bandwidth: 24_000_000_000, latency_ns: 8_000, ..Config::default() };

/// What the device computes on a batch, in milliseconds: the first makes the figure.
const STEPS_MS: [u64; 3] = [5, 1, 20];

const BATCHES: u64 = 200;

const LAYOUT: BatchLayout = BatchLayout {
    batch_size: BATCH,
    lookback: 60,
    features: FEATURES,
    horizon: 1,
    targets: 1,
    extras: Extras::NONE,
};

pub(crate) fn measure() -> Result<Finding, Failure> {
    let mut gains = Vec::new();
    for step_ms in STEPS_MS {
        // With one slot nothing overlaps: prefetch has a test that it takes exactly what a program
        // of blocking copies does.
        let (blocking, overlapped) = (simulate(step_ms, 1)?, simulate(step_ms, 3)?);
        gains.push((blocking as f64 / overlapped as f64 - 1.0) * 100.0);
    }
    let copy_ms = simulate(0, 1)? as f64 / BATCHES as f64 / 1e6;
    let megabytes = (LAYOUT.values() * size_of::<f32>()) as f64 / 1e6;
    let [first, others @ ..] = STEPS_MS;
    let others: Vec<String> = others
        .iter()
        .zip(&gains[1..])
        .map(|(ms, gain)| format!("{gain:.1} % at {ms} ms"))
        .collect();
    Ok(Finding {
        measured: Some(gains[0]),
        losses: None,
        how: format!(
            "SIMULATED device, virtual clock: batches of {megabytes:.1} MB over 24 GB/s take \
             {copy_ms:.2} ms, a step an assumed {first} ms ({}); the ring with 1 slot, which \
             takes turns as blocking copies do, then with 3",
            others.join(", ")
        ),
        reason: Some("there is no GPU here; it shows that copies overlap, not by how much".into()),
    })
}

/// The device's time for all batches.
fn simulate(step_ms: u64, depth: usize) -> Result<u64, Failure> {
    let simulator = Simulator::start(DEVICE());
    let device = choose(DeviceChoice::Cuda(0), Consumer::AnyDevice)?;
    let depth = NonZeroUsize::new(depth).ok_or("a ring has slots")?;
    let ring = Ring::open(&device, depth)?;
    let producer = Producer { make_slots: Some(Box::new(ring.slots())), control: *simulator };
    let seen = Pipeline::from("start", Start(true), depth.get())
        .then("producer", producer)
        .then("prefetch", ring)
        .run("device", Computer { control: *simulator, step_ns: step_ms * 1_000_000, seen: 0 })
        .map_err(|failed| failed.source)?
        .report;
    match (seen, simulator.hazards().first()) {
        (BATCHES, None) => Ok(simulator.latest_ns()),
        (BATCHES, Some(hazard)) => Err(hazard.clone().into()),
        _ => Err(format!("only {seen} batches arrived").into()),
    }
}

/// Starts the line: one item, which stands for the panel.
struct Start(bool);

struct Panel;

impl Item for Panel {
    fn rows(&self) -> u64 {
        1
    }
    fn bytes(&self) -> u64 {
        1
    }
}

impl Source for Start {
    type Out = Panel;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Panel>, Infallible> {
        Ok(std::mem::replace(&mut self.0, false).then_some(Panel))
    }
}

/// In normalize's place: hands slots on as fast as they come back.
struct Producer {
    make_slots: Option<MakeSlots>,
    control: Control,
}

type MakeSlots = Box<dyn FnOnce(BatchLayout) -> Result<Pool<BatchSlot>, CudaError> + Send>;

impl Stage for Producer {
    type In = Panel;
    type Out = Lease<BatchSlot>;
    type Error = CudaError;

    fn process(
        &mut self,
        _: Panel,
        emit: &mut Emit<'_, Lease<BatchSlot>>,
    ) -> Result<Flow, CudaError> {
        let make_slots = self.make_slots.take().expect("one panel comes");
        let slots = make_slots(LAYOUT)?;
        for index in 0..BATCHES {
            let Some(mut slot) = emit.take(&slots) else { return Ok(Flow::Stop) };
            self.control.host_write(slot.values());
            slot.meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index });
            slot.meta.series.resize(BATCH, 0);
            if emit.send(slot) == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// In the trainer's place: a kernel on the default stream.
struct Computer {
    control: Control,
    step_ns: u64,
    seen: u64,
}

#[derive(Debug, thiserror::Error)]
enum ComputerError {
    #[error("the device failed under a batch")]
    Batch(#[from] DeviceFault),
    #[error("the device refused a kernel: {0:?}")]
    Launch(Code),
}

impl Sink for Computer {
    type In = DeviceBatch;
    type Report = u64;
    type Error = ComputerError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, ComputerError> {
        batch.begin()?;
        let kernel = Kernel {
            stream: 0,
            data: batch.address().addr() as u64,
            bytes: LAYOUT.values() * size_of::<f32>(),
            write: false,
            nanoseconds: self.step_ns,
            body: None,
            user: std::ptr::null_mut(),
        };
        // SAFETY: there is no body.
        unsafe { self.control.launch(&kernel) }.map_err(ComputerError::Launch)?;
        batch.finish();
        self.seen += 1;
        Ok(Flow::Continue)
    }

    fn finish(self, _: Ending) -> Result<u64, ComputerError> {
        Ok(self.seen)
    }
}
