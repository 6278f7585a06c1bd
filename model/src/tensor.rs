//! Tensors over a batch's own memory: no copy, and the memory outlives every view.
//!
//! The tensors hold a share of the batch; when the last tensor, view or value saved for backward
//! is gone, the slot returns to its pool, on whatever thread that happens. The tensors are for
//! reading: writing to them would change the batch under its other views.

use crate::{error::ModelError, torch_text};
use millstream_data::{DeviceBatch, Extras, Place};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr,
    sync::Arc,
};
use tch::{Device, Tensor};
use torch_sys::C_tensor;

/// As in `cpp/blob.cpp`: values from `start` on, of this shape.
#[derive(Clone, Copy)]
#[repr(C)]
struct Part {
    start: i64,
    sizes: [i64; 3],
    dims: usize,
}

/// The parts that a batch can have.
const PARTS: usize = 6;

unsafe extern "C" {
    /// See `cpp/blob.cpp`.
    fn millstream_tensors_over(
        data: *mut f32,
        values: i64,
        parts: *const Part,
        count: usize,
        device: c_int,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        tensors: *mut *mut C_tensor,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
}

/// What a model may look at: all of a batch but what it is judged by.
#[derive(Debug)]
pub struct Inputs {
    /// `[rows, lookback, features]`, scaled; `lookback` is this batch's own, here and below.
    pub values: Tensor,
    /// `[rows]`: rows of each window that are real; `None` where windows are never padded.
    pub lengths: Option<Tensor>,
    /// `[rows, lookback]`: 1 for a real row, 0 for padding; `None` likewise.
    pub mask: Option<Tensor>,
    /// `[rows, lookback]`: the segment column's small integers; `None` where there is none.
    pub segments: Option<Tensor>,
}

/// A batch as tensors.
#[derive(Debug)]
pub struct BatchTensors {
    /// What the model sees.
    pub inputs: Inputs,
    /// `[rows, horizon, targets]`, scaled.
    pub targets: Tensor,
    /// `[rows, targets]`: each target's last known value, scaled; NaN where it is missing.
    pub last_known: Tensor,
    batch: Arc<DeviceBatch>,
}

impl Inputs {
    /// Windows in the batch.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.values.size()[0].cast_unsigned()
    }
}

impl BatchTensors {
    /// Wraps a batch; libtorch's stream then waits for its values, the caller does not.
    ///
    /// # Errors
    /// [`ModelError::Device`] when the device has failed.
    /// [`ModelError::BatchMemory`] when libtorch refuses the memory, as a libtorch without CUDA
    /// does for a batch on a CUDA device.
    pub fn new(batch: DeviceBatch) -> Result<Self, ModelError> {
        batch.begin()?;
        let batch = Arc::new(batch);
        let layout = batch.layout();
        let (rows, lookback) = (batch.meta().series.len(), batch.meta().lookback);
        let Extras { padding, segments } = layout.extras;
        let windows = &[rows, lookback];
        let parts = [
            Some(Part::new(0, &[rows, lookback, layout.features])),
            Some(Part::new(layout.targets_at(), &[rows, layout.horizon, layout.targets])),
            Some(Part::new(layout.last_known_at(), &[rows, layout.targets])),
            padding.then(|| Part::new(layout.lengths_at(), &[rows])),
            padding.then(|| Part::new(layout.mask_at(), windows)),
            segments.then(|| Part::new(layout.segments_at(), windows)),
        ];
        let [values, targets, last_known, lengths, mask, segments] = tensors_over(&batch, parts)?;
        let there = |tensor: Option<Tensor>| tensor.expect("every batch has this part");
        Ok(BatchTensors {
            inputs: Inputs { values: there(values), lengths, mask, segments },
            targets: there(targets),
            last_known: there(last_known),
            batch,
        })
    }

    /// Windows in the batch.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.batch.meta().series.len() as u64
    }

    /// The batch itself.
    #[must_use]
    pub fn batch(&self) -> &DeviceBatch {
        &self.batch
    }

    /// Says that the last use of the values has been enqueued: after backward, not before.
    pub fn finish(&self) {
        self.batch.finish();
    }
}

/// The libtorch device that a batch's place is, where this libtorch can compute there.
///
/// # Errors
/// [`ModelError::NoCuda`] where it cannot.
pub fn usable(place: Place) -> Result<Device, ModelError> {
    match place {
        Place::Cuda(index) if !tch::Cuda::is_available() => Err(ModelError::NoCuda { index }),
        place => Ok(device(place)),
    }
}

/// The libtorch device that a batch's place is.
#[must_use]
pub fn device(place: Place) -> Device {
    match place {
        Place::Cpu => Device::Cpu,
        Place::Cuda(index) => Device::Cuda(index),
    }
}

impl Part {
    fn new(start: usize, shape: &[usize]) -> Self {
        let mut sizes = [1; 3];
        for (size, &wanted) in sizes.iter_mut().zip(shape) {
            *size = wanted as i64;
        }
        Part { start: start as i64, sizes, dims: shape.len() }
    }

    fn end(&self) -> i64 {
        self.start + self.sizes.iter().product::<i64>()
    }
}

/// A tensor over each part of a batch that is there. All of them hold one share of the batch.
fn tensors_over(
    batch: &Arc<DeviceBatch>,
    parts: [Option<Part>; PARTS],
) -> Result<[Option<Tensor>; PARTS], ModelError> {
    let values = batch.layout().values() as i64;
    let mut list = [Part::new(0, &[0]); PARTS];
    let mut count = 0;
    for part in parts.iter().flatten() {
        assert!(part.end() <= values, "a part lies inside its slot");
        list[count] = *part;
        count += 1;
    }
    let device = match batch.place() {
        Place::Cpu => -1,
        Place::Cuda(index) => index as c_int,
    };
    let owner = Arc::into_raw(Arc::clone(batch)).cast_mut().cast();
    let mut made = [ptr::null_mut(); PARTS];
    let mut message: [c_char; 512] = [0; 512];
    // SAFETY: `address` starts `values` values, of which every part is a range (asserted above) and
    // which stay allocated while `owner`, a share of the batch, is held; the callee takes that share
    // over on every path and gives it to `release` once. `list`, `made` and `message` are live for
    // the call, with their lengths.
    let done = unsafe {
        millstream_tensors_over(
            batch.address().cast_mut(),
            values,
            list.as_ptr(),
            count,
            device,
            owner,
            release,
            made.as_mut_ptr(),
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if !done {
        // SAFETY: the callee wrote a NUL-terminated string that fits, and the array was zeroed.
        let reason = unsafe { CStr::from_ptr(message.as_ptr()) };
        let place = match batch.place() {
            Place::Cpu => "cpu".to_owned(),
            Place::Cuda(index) => format!("cuda:{index}"),
        };
        let reason = torch_text::first_sentence(&reason.to_string_lossy());
        return Err(ModelError::BatchMemory { place, reason });
    }
    let mut made = made.into_iter();
    Ok(parts.map(|part| {
        let tensor = part.and_then(|_| made.next())?;
        // SAFETY: `tensor` is a fresh `new at::Tensor`, which is what tch's `C_tensor` is, and nobody
        // else will free it.
        Some(unsafe { Tensor::from_ptr(tensor) })
    }))
}

/// Drops the share of the batch that its tensors had. libtorch may call it on any thread.
extern "C" fn release(owner: *mut c_void) {
    const fn may_cross_threads<T: Send + Sync>() {}
    const { may_cross_threads::<DeviceBatch>() };
    // SAFETY: `owner` came from `Arc::into_raw` in `tensors_over` and is released once.
    drop(unsafe { Arc::from_raw(owner.cast::<DeviceBatch>()) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{BatchLayout, BatchSlot, DeviceFault, DeviceMemory, DeviceSlot};
    use millstream_stage::Pool;
    use tch::Kind;

    const LAYOUT: BatchLayout = BatchLayout {
        batch_size: 3,
        lookback: 2,
        features: 2,
        horizon: 1,
        targets: 2,
        extras: Extras::NONE,
    };

    fn filled(pool: &Pool<BatchSlot>) -> DeviceBatch {
        let mut slot = pool.take();
        let (parts, meta) = slot.parts_mut();
        for (part, base) in [(parts.inputs, 0.0), (parts.targets, 100.0), (parts.last_known, 200.0)]
        {
            for (i, value) in part.iter_mut().enumerate() {
                *value = base + i as f32;
            }
        }
        meta.series.extend([0, 1]);
        DeviceBatch::Host(slot)
    }

    #[test]
    fn parts_are_seen_in_their_shapes_without_a_copy() {
        let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
        let tensors = BatchTensors::new(filled(&pool)).unwrap();
        assert_eq!(tensors.inputs.values.size(), [2, 2, 2]);
        assert_eq!(tensors.targets.size(), [2, 1, 2]);
        assert_eq!(tensors.last_known.size(), [2, 2]);
        assert_eq!(tensors.inputs.values.double_value(&[1, 1, 1]), 7.0);
        assert_eq!(tensors.targets.double_value(&[1, 0, 0]), 102.0);
        assert_eq!(tensors.last_known.double_value(&[0, 1]), 201.0);
        let Inputs { lengths, mask, segments, .. } = &tensors.inputs;
        assert!(lengths.is_none() && mask.is_none() && segments.is_none());
        assert_eq!(tensors.inputs.values.data_ptr().cast_const().cast(), tensors.batch().address());
    }

    #[test]
    fn extras_are_seen_where_the_layout_has_them_and_at_the_batchs_own_lookback() {
        let extras = Extras { padding: true, segments: true };
        let pool = Pool::new([BatchSlot::on_heap(BatchLayout { lookback: 4, extras, ..LAYOUT })]);
        let mut slot = pool.take();
        let (parts, meta) = slot.parts_mut();
        for (part, base) in [
            (parts.inputs, 0.0),
            (parts.lengths, 100.0),
            (parts.mask, 200.0),
            (parts.segments, 300.0),
        ] {
            for (i, value) in part.iter_mut().enumerate() {
                *value = base + i as f32;
            }
        }
        meta.series.extend([0, 1]);
        meta.lookback = 3;
        let tensors = BatchTensors::new(DeviceBatch::Host(slot)).unwrap();
        assert_eq!(tensors.inputs.values.size(), [2, 3, 2]);
        assert_eq!(tensors.inputs.values.double_value(&[1, 0, 0]), 6.0, "windows lie 3 rows apart");
        let [lengths, mask, segments] =
            [&tensors.inputs.lengths, &tensors.inputs.mask, &tensors.inputs.segments]
                .map(|part| part.as_ref().unwrap());
        assert_eq!((lengths.size(), lengths.double_value(&[1])), (vec![2], 101.0));
        assert_eq!((mask.size(), mask.double_value(&[1, 2])), (vec![2, 3], 205.0));
        assert_eq!((segments.size(), segments.double_value(&[1, 2])), (vec![2, 3], 305.0));
    }

    #[test]
    fn a_view_keeps_the_slot_from_its_pool() {
        let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
        let tensors = BatchTensors::new(filled(&pool)).unwrap();
        let view = tensors.inputs.values.narrow(0, 1, 1);
        drop(tensors);
        assert!(pool.try_take().is_none(), "the view still reads the slot");
        assert_eq!(view.double_value(&[0, 0, 0]), 4.0);
        drop(view);
        assert!(pool.try_take().is_some(), "nothing reads the slot any more");
    }

    #[test]
    fn a_value_saved_for_backward_keeps_the_slot() {
        let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
        let tensors = BatchTensors::new(filled(&pool)).unwrap();
        let weight = Tensor::ones([2, 1], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        let loss = tensors.inputs.values.matmul(&weight).sum(Kind::Float);
        drop(tensors);
        assert!(pool.try_take().is_none());
        loss.backward();
        assert_eq!(weight.grad().double_value(&[0, 0]), 0.0 + 2.0 + 4.0 + 6.0);
        drop(loss);
        assert!(pool.try_take().is_some());
    }

    #[test]
    fn the_last_tensor_may_be_dropped_on_another_thread() {
        let pool = Pool::new([BatchSlot::on_heap(LAYOUT)]);
        let tensors = BatchTensors::new(filled(&pool)).unwrap();
        let view = tensors.last_known.shallow_clone();
        drop(tensors);
        std::thread::spawn(move || drop(view)).join().unwrap();
        assert!(pool.try_take().is_some());
    }

    #[derive(Debug)]
    struct NoSuchDevice;
    // SAFETY: no tensor is ever made over it; that is what is tested.
    unsafe impl DeviceMemory for NoSuchDevice {
        fn place(&self) -> Place {
            Place::Cuda(200)
        }
        fn address(&self) -> *const f32 {
            std::ptr::null()
        }
        fn values(&self) -> usize {
            LAYOUT.values()
        }
        fn begin(&self) -> Result<(), DeviceFault> {
            Ok(())
        }
        fn finish(&self) {}
    }

    #[test]
    fn a_libtorch_without_cuda_says_so_before_anything_is_made() {
        assert_eq!(usable(Place::Cpu).unwrap(), Device::Cpu);
        if !tch::Cuda::is_available() {
            let error = usable(Place::Cuda(1)).unwrap_err().to_string();
            assert!(error.contains("cuda:1") && error.contains("prefetch.device"), "{error}");
        }
    }

    #[test]
    fn refused_memory_is_an_error_and_the_slot_returns() {
        let pool = Pool::new([DeviceSlot::new(LAYOUT, Box::new(NoSuchDevice))]);
        let mut slot = pool.take();
        slot.meta.series.push(0);
        let error = BatchTensors::new(DeviceBatch::Device(slot)).unwrap_err();
        assert!(error.to_string().contains("memory of a batch on cuda:200"), "{error}");
        assert!(pool.try_take().is_some());
    }
}
