//! Clipping all gradients to one norm, without the host ever knowing the norm.
//!
//! tch's `clip_grad_norm` compares the norm on the host, which waits for the device on every
//! step. Here the factor stays a tensor and every gradient is multiplied by it, clipped or not.

use tch::{Kind, TchError, Tensor};

/// Keeps the division defined when every gradient is zero; PyTorch uses the same value.
const EPSILON: f64 = 1e-6;

/// Scales `gradients` in place so that the norm of all of them together is at most `limit`.
///
/// # Errors
/// When libtorch fails.
pub(crate) fn clip_norm(gradients: &mut [Tensor], limit: f64) -> Result<(), TchError> {
    let norms = gradients.iter().map(Tensor::f_norm).collect::<Result<Vec<_>, _>>()?;
    let total = Tensor::f_stack(&norms, 0)?.f_to_kind(Kind::Float)?.f_norm()?;
    let factor = total.f_add_scalar(EPSILON)?.f_reciprocal()?.f_mul_scalar(limit)?;
    let factor = factor.f_clamp_max(1.0)?;
    for gradient in gradients {
        let _ = gradient.f_mul_(&factor)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: f64, expected: [f64; 3]) {
        let mut gradients = [Tensor::from_slice(&[3.0f32, 0.0]), Tensor::from_slice(&[4.0f32])];
        clip_norm(&mut gradients, limit).unwrap();
        let found = [
            gradients[0].double_value(&[0]),
            gradients[0].double_value(&[1]),
            gradients[1].double_value(&[0]),
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    #[test]
    fn the_norm_of_all_together_is_limited() {
        check(0.5, [0.3, 0.0, 0.4]);
    }

    #[test]
    fn small_gradients_are_left_alone() {
        check(50.0, [3.0, 0.0, 4.0]);
    }

    #[test]
    fn zero_gradients_stay_zero() {
        let mut gradients = [Tensor::zeros([4], (Kind::Float, tch::Device::Cpu))];
        clip_norm(&mut gradients, 0.5).unwrap();
        assert_eq!(gradients[0].abs().sum(Kind::Float).double_value(&[]), 0.0);
    }
}
