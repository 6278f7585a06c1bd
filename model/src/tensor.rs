//! Tensors over a batch's own memory: no copy, and the memory outlives every view.
//!
//! Each tensor holds a share of the batch; when the last tensor, view or value saved for backward
//! is gone, the slot returns to its pool, on whatever thread that happens. The tensors are for
//! reading: writing to them would change the batch under its other views.

use crate::{error::ModelError, torch_text};
use millstream_data::{DeviceBatch, Extras, Place};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::Arc,
};
use tch::{Device, Tensor};
use torch_sys::C_tensor;

unsafe extern "C" {
    /// See `cpp/blob.cpp`.
    fn millstream_tensor_over(
        data: *mut f32,
        sizes: *const i64,
        dims: usize,
        device: c_int,
        owner: *mut c_void,
        release: extern "C" fn(*mut c_void),
        message: *mut c_char,
        message_size: usize,
    ) -> *mut C_tensor;
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
        let over = |start, shape: &[usize]| tensor_over(&batch, start, shape);
        let extra =
            |there: bool, start, shape: &[usize]| there.then(|| over(start, shape)).transpose();
        let Extras { padding, segments } = layout.extras;
        Ok(BatchTensors {
            inputs: Inputs {
                values: over(0, &[rows, lookback, layout.features])?,
                lengths: extra(padding, layout.lengths_at(), &[rows])?,
                mask: extra(padding, layout.mask_at(), &[rows, lookback])?,
                segments: extra(segments, layout.segments_at(), &[rows, lookback])?,
            },
            targets: over(layout.targets_at(), &[rows, layout.horizon, layout.targets])?,
            last_known: over(layout.last_known_at(), &[rows, layout.targets])?,
            batch,
        })
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

/// A tensor over the `shape.product()` values that begin `start` values into the batch.
fn tensor_over(
    batch: &Arc<DeviceBatch>,
    start: usize,
    shape: &[usize],
) -> Result<Tensor, ModelError> {
    let end = start + shape.iter().product::<usize>();
    assert!(end <= batch.layout().values(), "a part lies inside its slot");
    let sizes: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
    let device = match batch.place() {
        Place::Cpu => -1,
        Place::Cuda(index) => index as c_int,
    };
    let data = batch.address().cast_mut().wrapping_add(start);
    let owner = Arc::into_raw(Arc::clone(batch)).cast_mut().cast();
    let mut message: [c_char; 512] = [0; 512];
    // SAFETY: `data` starts a range inside the slot (asserted above), which stays allocated while
    // `owner`, a share of the batch, is held; the callee takes that share over on every path and
    // gives it to `release` once. `sizes` and `message` are live for the call, with their lengths.
    let tensor = unsafe {
        millstream_tensor_over(
            data,
            sizes.as_ptr(),
            sizes.len(),
            device,
            owner,
            release,
            message.as_mut_ptr(),
            message.len(),
        )
    };
    if tensor.is_null() {
        // SAFETY: the callee wrote a NUL-terminated string that fits, and the array was zeroed.
        let reason = unsafe { CStr::from_ptr(message.as_ptr()) };
        let place = match batch.place() {
            Place::Cpu => "cpu".to_owned(),
            Place::Cuda(index) => format!("cuda:{index}"),
        };
        let reason = torch_text::first_sentence(&reason.to_string_lossy());
        return Err(ModelError::BatchMemory { place, reason });
    }
    // SAFETY: `tensor` is a fresh `new at::Tensor`, which is what tch's `C_tensor` is, and nobody
    // else will free it.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

/// Drops a tensor's share of its batch. libtorch may call it on any thread.
extern "C" fn release(owner: *mut c_void) {
    const fn may_cross_threads<T: Send + Sync>() {}
    const { may_cross_threads::<DeviceBatch>() };
    // SAFETY: `owner` came from `Arc::into_raw` in `tensor_over` and is released once.
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
