//! A line around the ring: a producer that fills slots with numbers that tell their batch, and a
//! consumer that checks them in a kernel on the default stream.

use cudarc::driver::{CudaContext, DriverError, result};
use fake_cuda::{Code, Control, Kernel, Simulator};
use millstream_data::{BatchLayout, BatchSlot, DeviceBatch, DeviceFault, Extras, Phase, Tag};
use millstream_prefetch::{Consumer, CudaError, DeviceChoice, Ring, choose};
use millstream_stage::{Emit, Ending, Flow, Item, Lease, Pipeline, Pool, Sink, Source, Stage};
use std::{
    convert::Infallible,
    ffi::c_void,
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

pub(crate) const LAYOUT: BatchLayout = BatchLayout {
    batch_size: 2,
    lookback: 3,
    features: 2,
    horizon: 1,
    targets: 1,
    extras: Extras::NONE,
};

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

type MakeSlots = Box<dyn FnOnce(BatchLayout) -> Result<Pool<BatchSlot>, CudaError> + Send>;

/// In normalize's place: fills `batches` slots, as fast as they come back.
struct Producer {
    batches: u64,
    layout: BatchLayout,
    make_slots: Option<MakeSlots>,
    control: Control,
}

/// The value that fills a batch: batches that could be mixed up have different ones.
fn value(batch: u64) -> f32 {
    (batch % (1 << 23)) as f32
}

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
        let slots = make_slots(self.layout)?;
        for batch in 0..self.batches {
            let Some(mut slot) = emit.take(&slots) else { return Ok(Flow::Stop) };
            self.control.host_write(slot.values());
            let (parts, meta) = slot.parts_mut();
            parts.inputs.fill(value(batch));
            parts.targets.fill(value(batch));
            parts.last_known.fill(value(batch));
            meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index: batch });
            meta.series.clear();
            meta.series.extend(0..self.layout.batch_size as u32);
            if emit.send(slot) == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// What the kernels of a run found. One run at a time has the simulator, and so these.
static RIGHT: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Runs on the default stream in place of a kernel: do the inputs hold their batch's value, whose
/// bits travel in place of a pointer?
extern "C" fn check(expected: *mut c_void, data: *mut u8, bytes: usize) {
    // SAFETY: the simulator calls with device memory of this size, which is full of values.
    let values = unsafe { std::slice::from_raw_parts(data.cast::<f32>(), bytes / 4) };
    let expected = f32::from_bits(expected.addr() as u32);
    let counter = if values.iter().all(|value| *value == expected) { &RIGHT } else { &WRONG };
    counter.fetch_add(1, SeqCst);
}

/// How a consumer behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Takes all there is.
    Whole,
    /// Stops after this many batches.
    StopsAfter(u64),
    /// Fails after this many batches.
    FailsAfter(u64),
    /// Panics after this many batches, with one in its hands.
    PanicsAfter(u64),
    /// Never says that it is finished with a batch.
    NeverFinishes,
    /// Drops every other batch unused.
    SkipsOdd,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConsumerError {
    #[error("on purpose")]
    OnPurpose,
    #[error("the device failed under a batch")]
    Batch(#[from] DeviceFault),
    #[error("the device refused a kernel: {0:?}")]
    Launch(Code),
    #[error("the device failed")]
    Driver(#[from] DriverError),
}

/// In the trainer's place.
struct Checker<'a> {
    control: Control,
    run: Run,
    seen: u64,
    watch: &'a mut dyn FnMut(u64),
}

impl Checker<'_> {
    fn launch(&self, batch: &DeviceBatch) -> Result<(), ConsumerError> {
        let bits = value(batch.tag().index).to_bits();
        let kernel = Kernel {
            stream: 0,
            data: batch.address().addr() as u64,
            bytes: batch.layout().batch_size * batch.layout().window() * 4,
            write: false,
            nanoseconds: self.run.kernel_ns,
            body: Some(check),
            user: std::ptr::without_provenance_mut(bits as usize),
        };
        // SAFETY: `check` takes the bits of a value.
        unsafe { self.control.launch(&kernel) }.map_err(ConsumerError::Launch)
    }
}

impl Sink for Checker<'_> {
    type In = DeviceBatch;
    type Report = u64;
    type Error = ConsumerError;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, ConsumerError> {
        (self.watch)(self.seen);
        assert_eq!(batch.tag().index, self.seen, "batches come in order");
        self.seen += 1;
        match self.run.manner {
            Manner::SkipsOdd if self.seen.is_multiple_of(2) => return Ok(Flow::Continue),
            Manner::FailsAfter(count) if self.seen > count => return Err(ConsumerError::OnPurpose),
            Manner::PanicsAfter(count) if self.seen > count => panic!("on purpose"),
            _ => {}
        }
        batch.begin()?;
        self.launch(&batch)?;
        if self.run.manner != Manner::NeverFinishes {
            batch.finish();
        }
        match self.run.manner {
            Manner::StopsAfter(count) if self.seen == count => Ok(Flow::Stop),
            _ => Ok(Flow::Continue),
        }
    }

    /// Waits for the device once, as reading the loss does.
    fn finish(self, _: Ending) -> Result<u64, ConsumerError> {
        synchronize()?;
        Ok(self.seen)
    }
}

/// Waits for the default stream.
pub(crate) fn synchronize() -> Result<(), DriverError> {
    // SAFETY: a null handle is the default stream.
    unsafe { result::stream::synchronize(std::ptr::null_mut()) }
}

/// What a run does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) batches: u64,
    pub(crate) depth: usize,
    pub(crate) layout: BatchLayout,
    pub(crate) kernel_ns: u64,
    pub(crate) manner: Manner,
}

impl Default for Run {
    fn default() -> Self {
        Run { batches: 100, depth: 3, layout: LAYOUT, kernel_ns: 0, manner: Manner::Whole }
    }
}

/// What a run that came to its end found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Batches the consumer got.
    pub(crate) seen: u64,
    /// Kernels that found their batch's values, and kernels that found others.
    pub(crate) right: u64,
    pub(crate) wrong: u64,
}

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Run {
    /// Runs the line; an error is whatever failed first.
    pub(crate) fn go(self, simulator: &Simulator) -> Result<Found, BoxError> {
        self.go_watched(simulator, &mut |_| {})
    }

    /// Like [`go`](Self::go); `watch` is called on the consumer's thread before each batch.
    pub(crate) fn go_watched(
        self,
        simulator: &Simulator,
        watch: &mut dyn FnMut(u64),
    ) -> Result<Found, BoxError> {
        RIGHT.store(0, SeqCst);
        WRONG.store(0, SeqCst);
        let control = **simulator;
        let device = choose(DeviceChoice::Cuda(0), Consumer::AnyDevice)?;
        // The consumer's own hold on the device, as libtorch has one.
        let _context = CudaContext::new(0).map_err(ConsumerError::Driver)?;
        let depth = NonZeroUsize::new(self.depth).expect("a depth above zero");
        let ring = Ring::open(&device, depth)?;
        let make_slots: MakeSlots = Box::new(ring.slots());
        let producer = Producer {
            batches: self.batches,
            layout: self.layout,
            make_slots: Some(make_slots),
            control,
        };
        let seen = Pipeline::from("start", Start(true), self.depth)
            .then("producer", producer)
            .then("prefetch", ring)
            .run("checker", Checker { control, run: self, seen: 0, watch })
            .map_err(|failed| failed.source)?
            .report;
        Ok(Found { seen, right: RIGHT.load(SeqCst), wrong: WRONG.load(SeqCst) })
    }

    /// Every kernel of a run that was cut short has run by the time its memory was freed.
    pub(crate) fn wrong_so_far() -> u64 {
        WRONG.load(SeqCst)
    }
}
