//! Your producer through the ring to your consumer, with no libtorch anywhere.
//!
//! `cargo run --release -p millstream-prefetch --example ring`, or with a device after `--`:
//! `cpu`, `auto`, `cuda:0`, or `fake-cuda` with MILLSTREAM_FAKE_CUDA set to the simulator's
//! library. The consumer here only looks at which batch it got; what yours enqueues between
//! `begin` and `finish` runs while the next batches are copied.

use millstream_data::{BatchLayout, BatchSlot, DeviceBatch, Extras, Phase, Place, Tag};
use millstream_prefetch::{Consumer, DeviceChoice, Ring, choose};
use millstream_stage::{Emit, Ending, Flow, Item, Lease, Pipeline, Pool, Sink, Source, Stage};
use std::{convert::Infallible, error::Error, num::NonZeroUsize};

const LAYOUT: BatchLayout = BatchLayout {
    batch_size: 256,
    lookback: 60,
    features: 32,
    horizon: 1,
    targets: 1,
    extras: Extras::NONE,
};

/// What your producer makes batches from.
struct Numbers(u64);

impl Item for Numbers {
    fn rows(&self) -> u64 {
        self.0
    }
    fn bytes(&self) -> u64 {
        0
    }
}

struct Once(Option<Numbers>);

impl Source for Once {
    type Out = Numbers;
    type Error = Infallible;
    fn next(&mut self) -> Result<Option<Numbers>, Infallible> {
        Ok(self.0.take())
    }
}

/// Your producer: fills slots in place, as they come back.
struct Producer {
    slots: Pool<BatchSlot>,
}

impl Stage for Producer {
    type In = Numbers;
    type Out = Lease<BatchSlot>;
    type Error = Infallible;

    fn process(
        &mut self,
        numbers: Numbers,
        emit: &mut Emit<'_, Lease<BatchSlot>>,
    ) -> Result<Flow, Infallible> {
        for index in 0..numbers.0 {
            let Some(mut slot) = emit.take(&self.slots) else { return Ok(Flow::Stop) };
            let (parts, meta) = slot.parts_mut();
            parts.inputs.fill(index as f32);
            meta.series.clear();
            meta.series.extend(0..LAYOUT.batch_size as u32);
            meta.tag = Some(Tag { epoch: 1, phase: Phase::Train, index });
            if emit.send(slot) == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }
}

/// Your consumer.
struct Sum(f64);

impl Sink for Sum {
    type In = DeviceBatch;
    type Report = f64;
    type Error = millstream_data::DeviceFault;

    fn accept(&mut self, batch: DeviceBatch) -> Result<Flow, Self::Error> {
        batch.begin()?; // the consumer's stream waits for the copy, this thread does not
        if batch.place() == Place::Cpu {
            // SAFETY: the batch is in host memory, is there, and starts with its inputs.
            let first = unsafe { batch.address().read() };
            self.0 += f64::from(first);
        } else {
            // Launch your kernels on the default stream, on `batch.address()`.
            self.0 += batch.tag().index as f64;
        }
        batch.finish(); // the device buffer may be overwritten when what was enqueued so far is done
        Ok(Flow::Continue)
    }

    fn finish(self, _: Ending) -> Result<f64, Self::Error> {
        Ok(self.0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "cpu".to_owned());
    let device = choose(DeviceChoice::try_from(name)?, Consumer::AnyDevice)?;
    println!("computing on {}", device.reason);

    let depth = NonZeroUsize::new(3).ok_or("a ring needs a slot")?;
    let ring = Ring::open(&device, depth)?;
    let slots = (ring.slots())(LAYOUT)?;
    let outcome = Pipeline::from("numbers", Once(Some(Numbers(1000))), depth.get())
        .then("producer", Producer { slots })
        .then("prefetch", ring)
        .run("sum", Sum(0.0))?;
    println!("1000 batches, sum {}", outcome.report);
    for stage in &outcome.stages {
        println!("{:9} {:5} items, {:7.1} ms at work", stage.name, stage.items, stage.busy_s * 1e3);
    }
    Ok(())
}
