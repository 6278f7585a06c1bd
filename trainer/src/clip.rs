//! Clipping all gradients to one norm, without the host ever knowing the norm.
//!
//! tch's `clip_grad_norm` compares the norm on the host, which waits for the device on every
//! step. Here it stays a tensor; and as the optimizers divide gradients by a tensor anyway, which
//! scaled gradients are for, clipping is to divide by more: no pass over the gradients of its own.

pub(crate) use millstream_model::fused::clipping_scale;
