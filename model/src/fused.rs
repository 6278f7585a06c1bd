//! Operators over all parameters at once, which tch does not wrap: one call, however many parameters
//! there are, where a step of a small model is mostly calls. See `cpp/fused.cpp`.
//!
//! Lists are in the order of the parameters. A parameter whose gradient is undefined had no part in
//! the loss, and a step leaves it alone. When to step, and how far, is not known here.

use std::{
    ffi::{CStr, c_char},
    ptr,
};
use tch::{TchError, Tensor};
use torch_sys::C_tensor;

/// What is to be done to gradients before a step, as tensors of one 32-bit value on their device, so
/// that the host need not know them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scaled<'a> {
    /// What they are divided by; 1 where it is left out. The step writes the quotients back.
    pub scale: Option<&'a Tensor>,
    /// 1 where one of them is not finite: the step then changes nothing.
    pub found_inf: Option<&'a Tensor>,
}

/// The numbers of a step of Adam.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Adam {
    /// The learning rate.
    pub rate: f64,
    /// How much of the average of the gradients stays.
    pub beta1: f64,
    /// The same of the average of their squares.
    pub beta2: f64,
    /// By how much weights are drawn to zero.
    pub weight_decay: f64,
    /// Keeps the division defined.
    pub epsilon: f64,
    /// Whether decay shrinks the weights, as in AdamW, or is added to the gradients.
    pub decoupled: bool,
}

/// What Adam reads and writes; one tensor for each parameter.
#[derive(Debug, Clone, Copy)]
pub struct AdamLists<'a> {
    /// What is learned.
    pub parameters: &'a [Tensor],
    /// Down which to go.
    pub gradients: &'a [Tensor],
    /// Averages of the gradients.
    pub averages: &'a [Tensor],
    /// Averages of their squares.
    pub squares: &'a [Tensor],
}

/// The numbers of a step of stochastic gradient descent.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Sgd {
    /// The learning rate.
    pub rate: f64,
    /// How much of the step before is taken again.
    pub momentum: f64,
    /// How much of a weight is added to its gradient.
    pub weight_decay: f64,
    /// Whether momentum looks ahead.
    pub nesterov: bool,
}

/// What stochastic gradient descent reads and writes.
#[derive(Debug, Clone, Copy)]
pub struct SgdLists<'a> {
    /// What is learned.
    pub parameters: &'a [Tensor],
    /// Down which to go.
    pub gradients: &'a [Tensor],
    /// What momentum keeps, zeros at first; empty without momentum.
    pub buffers: &'a [Tensor],
}

type CList = *const *const C_tensor;

#[repr(C)]
struct CScaled {
    scale: *const C_tensor,
    found_inf: *const C_tensor,
}

unsafe extern "C" {
    fn millstream_take_gradients(
        parameters: CList,
        count: usize,
        gradients: *mut *mut C_tensor,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
    fn millstream_clipping_scale(
        gradients: CList,
        count: usize,
        limit: f64,
        scale: *const C_tensor,
        message: *mut c_char,
        message_size: usize,
    ) -> *mut C_tensor;
    fn millstream_adam(
        parameters: CList,
        gradients: CList,
        averages: CList,
        squares: CList,
        count: usize,
        steps: *const C_tensor,
        adam: *const Adam,
        scaled: *const CScaled,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
    fn millstream_sgd(
        parameters: CList,
        gradients: CList,
        buffers: CList,
        count: usize,
        sgd: *const Sgd,
        scaled: *const CScaled,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
}

/// Room for what libtorch says.
struct Message([c_char; 512]);

impl Message {
    fn new() -> Self {
        Message([0; 512])
    }

    fn into_result(self, done: bool) -> Result<(), TchError> {
        if done {
            return Ok(());
        }
        // SAFETY: the callee wrote a NUL-terminated string that fits, and the array was zeroed.
        let text = unsafe { CStr::from_ptr(self.0.as_ptr()) };
        Err(TchError::Torch(text.to_string_lossy().into_owned()))
    }
}

impl Scaled<'_> {
    fn to_c(self) -> CScaled {
        CScaled { scale: pointer(self.scale), found_inf: pointer(self.found_inf) }
    }
}

fn pointer(tensor: Option<&Tensor>) -> *const C_tensor {
    tensor.map_or(ptr::null(), Tensor::as_ptr)
}

/// Takes the gradients of these parameters, which then have none: the next backward pass hands over
/// what it made, where it would have to add to what is there. Undefined where there is none.
///
/// # Errors
/// When libtorch fails.
pub fn take_gradients(parameters: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
    let list: Vec<_> = parameters.iter().map(Tensor::as_ptr).collect();
    let mut gradients = vec![ptr::null_mut(); list.len()];
    let mut message = Message::new();
    // SAFETY: both arrays have `list.len()` places, the tensors are borrowed for the call, and the
    // message has its length.
    let done = unsafe {
        millstream_take_gradients(
            list.as_ptr(),
            list.len(),
            gradients.as_mut_ptr(),
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)?;
    // SAFETY: each is a fresh `new at::Tensor`, which nobody else will free.
    Ok(gradients.into_iter().map(|gradient| unsafe { Tensor::from_ptr(gradient) }).collect())
}

/// What `gradients` are to be divided by so that their norm, all of them together, is at most
/// `limit`: one value on their device, at least 1. They may be `scale` times what they should be; it is
/// then at least that.
///
/// # Errors
/// When libtorch fails.
pub fn clipping_scale(
    gradients: &[Tensor],
    limit: f64,
    scale: Option<&Tensor>,
) -> Result<Tensor, TchError> {
    let list: Vec<_> = gradients.iter().map(Tensor::as_ptr).collect();
    let mut message = Message::new();
    // SAFETY: the list has its length, its tensors and the scale are borrowed for the call, and the
    // message has its length.
    let by = unsafe {
        millstream_clipping_scale(
            list.as_ptr(),
            list.len(),
            limit,
            pointer(scale),
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(!by.is_null())?;
    // SAFETY: a fresh `new at::Tensor`, which nobody else will free.
    Ok(unsafe { Tensor::from_ptr(by) })
}

/// A step of Adam for those parameters that are `chosen`. `steps` holds, as one 32-bit value on the
/// device, how many steps were taken, this one included.
///
/// # Errors
/// When libtorch fails.
pub fn adam(
    lists: &AdamLists<'_>,
    chosen: &[usize],
    steps: &Tensor,
    adam: &Adam,
    scaled: Scaled<'_>,
) -> Result<(), TchError> {
    let AdamLists { parameters, gradients, averages, squares } = *lists;
    let [parameters, gradients, averages, squares] =
        [parameters, gradients, averages, squares].map(|list| pointers(list, chosen));
    let mut message = Message::new();
    // SAFETY: every list has `chosen.len()` tensors, which are borrowed for the call as the others
    // are, and the message has its length.
    let done = unsafe {
        millstream_adam(
            parameters.as_ptr(),
            gradients.as_ptr(),
            averages.as_ptr(),
            squares.as_ptr(),
            chosen.len(),
            steps.as_ptr(),
            adam,
            &scaled.to_c(),
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)
}

/// A step down the gradients of those parameters that are `chosen`.
///
/// # Errors
/// When libtorch fails.
pub fn sgd(
    lists: &SgdLists<'_>,
    chosen: &[usize],
    sgd: &Sgd,
    scaled: Scaled<'_>,
) -> Result<(), TchError> {
    let [parameters, gradients] =
        [lists.parameters, lists.gradients].map(|list| pointers(list, chosen));
    let buffers = (!lists.buffers.is_empty()).then(|| pointers(lists.buffers, chosen));
    let mut message = Message::new();
    // SAFETY: as above; `buffers` is null or such a list.
    let done = unsafe {
        millstream_sgd(
            parameters.as_ptr(),
            gradients.as_ptr(),
            buffers.as_ref().map_or(ptr::null(), Vec::as_ptr),
            chosen.len(),
            sgd,
            &scaled.to_c(),
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)
}

fn pointers(list: &[Tensor], chosen: &[usize]) -> Vec<*const C_tensor> {
    chosen.iter().map(|&i| list[i].as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    fn ones(count: i64) -> Tensor {
        Tensor::ones([count], (Kind::Float, Device::Cpu)).set_requires_grad(true)
    }

    #[test]
    fn gradients_are_taken_once() {
        let parameters = [ones(2), ones(3), ones(1)];
        let loss = (&parameters[0] * 3.0).sum(Kind::Float) + parameters[2].sum(Kind::Float);
        loss.backward();
        let taken = take_gradients(&parameters).unwrap();
        assert_eq!(taken[0].double_value(&[1]), 3.0);
        assert!(!taken[1].defined(), "the loss does not depend on it");
        assert!(!parameters[0].grad().defined());
        assert!(!take_gradients(&parameters).unwrap()[0].defined());
        loss_again(&parameters[0]).backward();
        assert_eq!(parameters[0].grad().double_value(&[0]), 1.0, "nothing is added to the old one");
    }

    fn loss_again(parameter: &Tensor) -> Tensor {
        parameter.sum(Kind::Float)
    }

    /// What a scale does to gradients of 3, 0 and 4, in memory of each kind that there is.
    fn check_clipped(limit: f64, scale: Option<f32>, expected: [f64; 3]) {
        let times = f64::from(scale.unwrap_or(1.0));
        let scale = scale.map(|scale| Tensor::from_slice(&[scale]));
        // The second kind has gaps, so that libtorch's operators have to do it.
        let gapped = Tensor::from_slice(&[3.0f32, 9.0, 0.0, 9.0]).view([2, 2]).select(1, 0);
        for first in [Tensor::from_slice(&[3.0f32, 0.0]), gapped] {
            let second = Tensor::from_slice(&[4.0f32]) * times;
            // Multiplied in place, as the result of an operator would have no gaps.
            let first = first.shallow_clone().g_mul_scalar_(times);
            let list = [first.shallow_clone(), Tensor::new(), second.shallow_clone()];
            let by = clipping_scale(&list, limit, scale.as_ref()).unwrap();
            assert_eq!((by.numel(), by.kind()), (1, Kind::Float));
            let found =
                [first.double_value(&[0]), first.double_value(&[1]), second.double_value(&[0])]
                    .map(|value| value / by.double_value(&[]));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }

    #[test]
    fn the_norm_of_all_together_is_limited_and_small_gradients_are_left_alone() {
        for scale in [None, Some(1.0), Some(0.25), Some(65536.0)] {
            check_clipped(0.5, scale, [0.3, 0.0, 0.4]);
            check_clipped(50.0, scale, [3.0, 0.0, 4.0]);
        }
        let zero = [Tensor::zeros([4], (Kind::Float, Device::Cpu))];
        assert_eq!(clipping_scale(&zero, 0.5, None).unwrap().double_value(&[]), 1.0);
    }

    #[test]
    fn the_norm_of_many_values_is_that_of_libtorch_and_none_stays_none() {
        for count in [1, 15, 16, 17, 4095, 4096, 4097, 100_003] {
            let values = Tensor::arange(count, (Kind::Float, Device::Cpu)).sin();
            let expected = values.norm().double_value(&[]) / 1e-3;
            let found = clipping_scale(&[values], 1e-3, None).unwrap().double_value(&[]);
            assert!((found - expected.max(1.0)).abs() < 1e-5 * found, "{count}: {found}");
        }
        for (value, is_expected) in
            [(f32::NAN, f64::is_nan as fn(f64) -> bool), (f32::INFINITY, f64::is_infinite)]
        {
            let found = clipping_scale(&[Tensor::from_slice(&[1.0, value])], 0.5, None).unwrap();
            assert!(is_expected(found.double_value(&[])), "{value}");
        }
    }

    #[test]
    fn what_has_no_gradient_is_left_alone_and_a_wrong_shape_is_an_error() {
        let sgd_step = Sgd { rate: 0.5, momentum: 0.0, weight_decay: 0.0, nesterov: false };
        let parameters = [ones(2), ones(2)];
        let gradients = [Tensor::new(), Tensor::from_slice(&[1.0f32, 2.0])];
        let lists = SgdLists { parameters: &parameters, gradients: &gradients, buffers: &[] };
        sgd(&lists, &[0, 1], &sgd_step, Scaled::default()).unwrap();
        assert_eq!(Vec::<f32>::try_from(parameters[0].detach()).unwrap(), [1.0, 1.0]);
        assert_eq!(Vec::<f32>::try_from(parameters[1].detach()).unwrap(), [0.5, 0.0]);
        let scale = Tensor::from_slice(&[2.0f32]);
        let gradients = [Tensor::from_slice(&[1.0f32, 1.0]), Tensor::from_slice(&[1.0f32, 1.0])];
        let lists = SgdLists { gradients: &gradients, ..lists };
        let halved = Scaled { scale: Some(&scale), found_inf: None };
        sgd(&lists, &[1], &sgd_step, halved).unwrap();
        assert_eq!(Vec::<f32>::try_from(parameters[0].detach()).unwrap(), [1.0, 1.0]);
        assert_eq!(Vec::<f32>::try_from(parameters[1].detach()).unwrap(), [0.25, -0.25]);
    }
}
