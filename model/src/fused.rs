//! Operators over all parameters at once, which tch does not wrap: one call, however many parameters
//! there are, where a step of a small model is mostly calls. See `cpp/fused.cpp`. None of them asks the
//! device for a value.
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

/// What a look at all gradients has found, as tensors of one 32-bit value on their device.
#[derive(Debug)]
pub struct Checked {
    /// What they are to be divided by; `None` where there is no limit to their norm.
    pub scale: Option<Tensor>,
    /// 1 where a gradient or a loss is not finite.
    pub found_inf: Tensor,
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
    fn millstream_check_gradients(
        gradients: CList,
        count: usize,
        losses: CList,
        loss_count: usize,
        limit: f64,
        scale: *const C_tensor,
        divisor: *mut *mut C_tensor,
        found_inf: *mut *mut C_tensor,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
    fn millstream_count_step(
        steps: *const C_tensor,
        found_inf: *const C_tensor,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
    fn millstream_update_scale(
        scale: *mut C_tensor,
        growth: *mut C_tensor,
        found_inf: *const C_tensor,
        interval: i64,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
    fn millstream_average(
        averages: CList,
        values: CList,
        count: usize,
        share: f64,
        message: *mut c_char,
        message_size: usize,
    ) -> bool;
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
    let list = all_pointers(parameters);
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
/// `limit`, 0 for none; and whether one of them, or of the scalars `losses` that they are of, is not
/// finite. They may be `scale` times what they should be; the divisor is then at least that.
///
/// # Errors
/// When libtorch fails.
pub fn check_gradients(
    gradients: &[Tensor],
    losses: &[Tensor],
    limit: f64,
    scale: Option<&Tensor>,
) -> Result<Checked, TchError> {
    let [list, loss_list] = [gradients, losses].map(all_pointers);
    let (mut divisor, mut found_inf) = (ptr::null_mut(), ptr::null_mut());
    let mut message = Message::new();
    // SAFETY: the lists have their lengths, their tensors and the scale are borrowed for the call, both
    // places are writable, and the message has its length.
    let done = unsafe {
        millstream_check_gradients(
            list.as_ptr(),
            list.len(),
            loss_list.as_ptr(),
            loss_list.len(),
            limit,
            pointer(scale),
            &raw mut divisor,
            &raw mut found_inf,
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)?;
    // SAFETY: each that is there is a fresh `new at::Tensor`, which nobody else will free.
    let taken = |tensor| unsafe { Tensor::from_ptr(tensor) };
    let found_inf = taken(found_inf);
    let scale =
        (!divisor.is_null()).then(|| taken(divisor)).or_else(|| Some(scale?.shallow_clone()));
    Ok(Checked { scale, found_inf })
}

/// Counts a step in `steps`, one 32-bit value on the device, unless `found_inf` says that it changes
/// nothing.
///
/// # Errors
/// When libtorch fails.
pub fn count_step(steps: &mut Tensor, found_inf: Option<&Tensor>) -> Result<(), TchError> {
    let mut message = Message::new();
    // SAFETY: the tensors are borrowed for the call, and the message has its length.
    let done = unsafe {
        millstream_count_step(
            steps.as_ptr(),
            pointer(found_inf),
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)
}

/// Halves `scale` after a step that `found_inf` says was skipped, and doubles it after `interval` steps
/// in a row that were not, which `growth` counts, one 32-bit integer.
///
/// # Errors
/// When libtorch fails.
pub fn update_scale(
    scale: &mut Tensor,
    growth: &mut Tensor,
    found_inf: &Tensor,
    interval: i64,
) -> Result<(), TchError> {
    let mut message = Message::new();
    // SAFETY: the tensors are borrowed for the call, and the message has its length.
    let done = unsafe {
        millstream_update_scale(
            scale.as_mut_ptr(),
            growth.as_mut_ptr(),
            found_inf.as_ptr(),
            interval,
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)
}

/// Moves every average by this share of the way to its value.
///
/// # Errors
/// When libtorch fails.
///
/// # Panics
/// When they are not as many.
pub fn average(averages: &mut [Tensor], values: &[Tensor], share: f64) -> Result<(), TchError> {
    assert_eq!(averages.len(), values.len(), "an average for every value");
    let (averages, values) = (all_pointers(averages), all_pointers(values));
    let mut message = Message::new();
    // SAFETY: both lists have as many tensors, borrowed for the call, and the message has its length.
    let done = unsafe {
        millstream_average(
            averages.as_ptr(),
            values.as_ptr(),
            averages.len(),
            share,
            message.0.as_mut_ptr(),
            message.0.len(),
        )
    };
    message.into_result(done)
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

fn all_pointers(list: &[Tensor]) -> Vec<*const C_tensor> {
    list.iter().map(Tensor::as_ptr).collect()
}

#[cfg(test)]
#[path = "fused_tests.rs"]
mod tests;
