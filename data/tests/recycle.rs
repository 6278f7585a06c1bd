//! Three slots, ten thousand batches: a producer like normalize, a ring like prefetch with device
//! device buffers of its own, and a consumer with no tch. Host and device buffers recycle separately.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_data::{
    BatchLayout, BatchSlot, DeviceBatch, DeviceFault, DeviceMemory, DeviceSlot, Extras, Phase,
    Place, Plan, Tag, WindowCounts,
};
use millstream_stage::{Emit, Ending, Flow, Item, Lease, Pipeline, Pool, Sink, Source, Stage};
use std::{
    collections::HashSet,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

const BATCHES: u64 = 10_000;
const SLOTS: usize = 3;
const LAYOUT: BatchLayout = BatchLayout {
    batch_size: 4,
    lookback: 5,
    features: 3,
    horizon: 2,
    targets: 1,
    extras: Extras::NONE,
};

fn plan() -> Arc<Plan> {
    let windows = WindowCounts { train: 4 * BATCHES, ..WindowCounts::default() };
    Arc::new(Plan::unscaled(&["a", "b", "c"], &["c"], 5, 4).to_learn_from(windows, 1))
}

/// What a batch holds at each place, so that a mixed-up slot is seen.
fn expected(batch: u64, place: usize) -> f32 {
    (batch % 4096) as f32 + place as f32 / 1024.0
}

struct Start(bool);
struct Go;
impl Item for Go {
    fn rows(&self) -> u64 {
        0
    }
    fn bytes(&self) -> u64 {
        0
    }
}
impl Source for Start {
    type Out = Go;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Go>, Infallible> {
        Ok(std::mem::take(&mut self.0).then_some(Go))
    }
}

/// Like normalize: one item in, every batch out, filled in place.
struct Producer {
    slots: Pool<BatchSlot>,
}

impl Stage for Producer {
    type In = Go;
    type Out = Lease<BatchSlot>;
    type Error = Infallible;
    fn process(
        &mut self,
        _: Go,
        emit: &mut Emit<'_, Lease<BatchSlot>>,
    ) -> Result<Flow, Infallible> {
        let plan = plan();
        for batch in 0..BATCHES {
            let Some(mut slot) = emit.take(&self.slots) else { return Ok(Flow::Stop) };
            let (parts, meta) = slot.parts_mut();
            let all = parts.inputs.iter_mut().chain(parts.targets).chain(parts.last_known);
            all.enumerate().for_each(|(place, value)| *value = expected(batch, place));
            meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index: batch });
            meta.plan = Some(Arc::clone(&plan));
            meta.series.clear();
            meta.series.resize(LAYOUT.batch_size, 0);
            meta.time.clear();
            meta.time.resize(LAYOUT.batch_size, batch as i64);
            if emit.send(slot) == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Stands for device memory; the lock stands for the device's own ordering.
#[derive(Debug)]
struct Device {
    values: Mutex<Vec<f32>>,
    address: usize,
}

impl Device {
    fn new() -> Self {
        let values = vec![0.0; LAYOUT.values()];
        let address = values.as_ptr() as usize;
        Device { values: Mutex::new(values), address }
    }
}

#[derive(Debug)]
struct DeviceBuffer(Arc<Device>);

// SAFETY: the values lie in a box of the layout's size, and are written while nobody has a lease.
unsafe impl DeviceMemory for DeviceBuffer {
    fn place(&self) -> Place {
        Place::Cuda(0)
    }
    fn address(&self) -> *const f32 {
        self.0.address as *const f32
    }
    fn values(&self) -> usize {
        LAYOUT.values()
    }
    fn begin(&self) -> Result<(), DeviceFault> {
        Ok(())
    }
    fn finish(&self) {}
}

/// Like prefetch: copies each host buffer into a free device buffer and lets the host buffer go at once.
struct Ring {
    buffers: Pool<DeviceSlot>,
    devices: Vec<Arc<Device>>,
}

impl Stage for Ring {
    type In = Lease<BatchSlot>;
    type Out = DeviceBatch;
    type Error = Infallible;
    fn process(
        &mut self,
        mut host: Lease<BatchSlot>,
        emit: &mut Emit<'_, DeviceBatch>,
    ) -> Result<Flow, Infallible> {
        let Some(mut device) = emit.take(&self.buffers) else { return Ok(Flow::Stop) };
        let address = device.memory().address() as usize;
        let target = self.devices.iter().find(|d| d.address == address).unwrap();
        target.values.lock().unwrap().copy_from_slice(host.values());
        std::mem::swap(&mut device.meta, &mut host.meta);
        drop(host);
        Ok(emit.send(DeviceBatch::Device(device)))
    }
}

struct Consumer {
    devices: Vec<Arc<Device>>,
    next: u64,
    addresses: HashSet<usize>,
}

impl Sink for Consumer {
    type In = DeviceBatch;
    type Report = (u64, usize);
    type Error = Infallible;
    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, Infallible> {
        let tag = batch.tag();
        assert_eq!(tag.index, self.next, "batches arrive in order");
        assert_eq!(batch.meta().time, vec![self.next as i64; LAYOUT.batch_size]);
        assert_eq!(batch.plan().is_last(tag), self.next + 1 == BATCHES);
        let address = batch.address() as usize;
        let device = self.devices.iter().find(|d| d.address == address).unwrap();
        let values = device.values.lock().unwrap();
        let parts = values[..LAYOUT.batch_size * LAYOUT.window()]
            .iter()
            .chain(&values[LAYOUT.targets_at()..][..LAYOUT.batch_size * LAYOUT.labels()])
            .chain(&values[LAYOUT.last_known_at()..][..LAYOUT.batch_size * LAYOUT.targets]);
        for (place, value) in parts.enumerate() {
            assert_eq!(*value, expected(self.next, place), "batch {}, place {place}", self.next);
        }
        batch.finish();
        self.addresses.insert(address);
        self.next += 1;
        Ok(Flow::Continue)
    }
    fn finish(self, _: Ending) -> Result<(u64, usize), Infallible> {
        Ok((self.next, self.addresses.len()))
    }
}

#[test]
fn three_slots_carry_ten_thousand_batches() {
    let hosts = Pool::new((0..SLOTS).map(|_| BatchSlot::on_heap(LAYOUT)));
    let devices: Vec<_> = (0..SLOTS).map(|_| Arc::new(Device::new())).collect();
    let buffers =
        devices.iter().map(|d| DeviceSlot::new(LAYOUT, Box::new(DeviceBuffer(Arc::clone(d)))));
    let buffers = Pool::new(buffers);
    let outcome = Pipeline::from("start", Start(true), SLOTS)
        .then("producer", Producer { slots: hosts.clone() })
        .then("ring", Ring { buffers: buffers.clone(), devices: devices.clone() })
        .run("consumer", Consumer { devices, next: 0, addresses: HashSet::new() })
        .unwrap();
    let (batches, addresses) = outcome.report;
    assert_eq!(batches, BATCHES);
    assert_eq!(addresses, SLOTS, "every device buffer was used, and no other memory");
    assert_eq!((hosts.free(), buffers.free()), (SLOTS, SLOTS), "every slot is back");
}

/// Stops after a few batches while some are still in the links.
struct Impatient(u64);

impl Sink for Impatient {
    type In = DeviceBatch;
    type Report = ();
    type Error = Infallible;
    fn accept(&mut self, _: DeviceBatch) -> Result<Flow, Infallible> {
        self.0 -= 1;
        Ok(if self.0 == 0 { Flow::Stop } else { Flow::Continue })
    }
    fn finish(self, _: Ending) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Like prefetch on the CPU: hands the host slot itself on.
struct HandOver;

impl Stage for HandOver {
    type In = Lease<BatchSlot>;
    type Out = DeviceBatch;
    type Error = Infallible;
    fn process(
        &mut self,
        slot: Lease<BatchSlot>,
        emit: &mut Emit<'_, DeviceBatch>,
    ) -> Result<Flow, Infallible> {
        Ok(emit.send(DeviceBatch::Host(slot)))
    }
}

/// Fails instead of hanging.
fn within_a_minute(run: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let runner = std::thread::spawn(move || {
        run();
        done.send(()).expect("the test waits for this");
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("the line hangs or failed");
    runner.join().expect("the run has ended");
}

/// When the sink goes, slots lie unread in the links, and parts upstream wait for those very slots.
/// Which part waits for what depends on the moment, so every moment is tried many times.
#[test]
fn slots_come_back_from_a_line_that_stopped_early() {
    within_a_minute(|| {
        for round in 0..400 {
            let hosts = Pool::new((0..SLOTS).map(|_| BatchSlot::on_heap(LAYOUT)));
            let devices: Vec<_> = (0..SLOTS).map(|_| Arc::new(Device::new())).collect();
            let buffers = devices
                .iter()
                .map(|d| DeviceSlot::new(LAYOUT, Box::new(DeviceBuffer(Arc::clone(d)))));
            let buffers = Pool::new(buffers);
            Pipeline::from("start", Start(true), SLOTS)
                .then("producer", Producer { slots: hosts.clone() })
                .then("ring", Ring { buffers: buffers.clone(), devices })
                .run("consumer", Impatient(1 + round % 9))
                .unwrap();
            assert_eq!((hosts.free(), buffers.free()), (SLOTS, SLOTS));
        }
    });
}

#[test]
fn slots_that_are_handed_over_come_back_too() {
    within_a_minute(|| {
        for round in 0..400 {
            let hosts = Pool::new((0..SLOTS).map(|_| BatchSlot::on_heap(LAYOUT)));
            Pipeline::from("start", Start(true), SLOTS)
                .then("producer", Producer { slots: hosts.clone() })
                .then("hand-over", HandOver)
                .run("consumer", Impatient(1 + round % 9))
                .unwrap();
            assert_eq!(hosts.free(), SLOTS);
        }
    });
}
