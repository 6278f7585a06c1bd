//! Clipping all gradients to one norm, without the host ever knowing the norm.
//!
//! tch's `clip_grad_norm` compares the norm on the host, which waits for the device on every
//! step. Here it stays a tensor; and as the optimizers divide gradients by a tensor anyway, which
//! scaled gradients are for, clipping is to divide by more: no pass over the gradients of its own.

use millstream_model::fused;
use tch::{TchError, Tensor};

/// What `gradients` are to be divided by so that their norm, all of them together, is at most
/// `limit`. They may be `scale` times what they should be; what is divided by is then at least that.
///
/// # Errors
/// When libtorch fails.
pub(crate) fn clipping_scale(
    gradients: &[Tensor],
    limit: f64,
    scale: Option<&Tensor>,
) -> Result<Tensor, TchError> {
    let mut over = fused::norm(gradients)?.f_div_scalar_(limit)?;
    match scale {
        None => over.f_clamp_min_(1.0),
        Some(scale) => over.f_maximum(scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::Kind;

    fn check(limit: f64, scale: Option<f32>, expected: [f64; 3]) {
        let gradients = [Tensor::from_slice(&[3.0f32, 0.0]), Tensor::from_slice(&[4.0f32])];
        let times = f64::from(scale.unwrap_or(1.0));
        let scaled = gradients.map(|gradient| gradient * times);
        let scale = scale.map(|scale| Tensor::from_slice(&[scale]));
        let by = clipping_scale(&scaled, limit, scale.as_ref()).unwrap();
        assert_eq!((by.numel(), by.kind()), (1, Kind::Float));
        let [found, other] = scaled.map(|gradient| gradient / &by);
        let found = [found.double_value(&[0]), found.double_value(&[1]), other.double_value(&[0])];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    #[test]
    fn the_norm_of_all_together_is_limited() {
        check(0.5, None, [0.3, 0.0, 0.4]);
    }

    #[test]
    fn small_gradients_are_left_alone() {
        check(50.0, None, [3.0, 0.0, 4.0]);
    }

    #[test]
    fn what_is_limited_is_the_norm_without_the_scale() {
        for scale in [0.25, 1.0, 65536.0] {
            check(0.5, Some(scale), [0.3, 0.0, 0.4]);
            check(50.0, Some(scale), [3.0, 0.0, 4.0]);
        }
    }

    #[test]
    fn zero_gradients_stay_zero() {
        let gradients = [Tensor::zeros([4], (Kind::Float, tch::Device::Cpu))];
        let by = clipping_scale(&gradients, 0.5, None).unwrap();
        assert_eq!(by.double_value(&[]), 1.0);
    }
}
