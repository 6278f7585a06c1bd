//! `train.ema`: an average of the weights over the steps, in which late ones count most (an exponential
//! moving average; Polyak and Juditsky, 1992). Validated, tested and kept as the model are these; what
//! learns are the raw ones.
//!
//! After step t the average keeps `min(ema, (1 + t) / (10 + t))` of itself, so that it does not begin
//! with a long memory of the weights that were drawn; that is no bias, so nothing is corrected for.

use millstream_model::{ModelError, Parameters, fused};
use tch::{TchError, Tensor};

/// Averages of a model's weights.
#[derive(Debug)]
pub(crate) struct Average {
    decay: f64,
    /// As many as the parameters, on their device.
    tensors: Vec<Tensor>,
    /// The raw weights, while the model has the average.
    raw: Option<Vec<Tensor>>,
}

impl Average {
    /// An average that begins with the weights as they are.
    ///
    /// # Errors
    /// When libtorch has no memory for it.
    pub(crate) fn new(parameters: &Parameters, decay: f64) -> Result<Self, ModelError> {
        Ok(Average { decay, tensors: parameters.snapshot()?, raw: None })
    }

    /// Takes the weights after step `step`, from 1, into account.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn update(&mut self, weights: &[Tensor], step: u64) -> Result<(), TchError> {
        fused::average(&mut self.tensors, weights, 1.0 - kept(self.decay, step))
    }

    /// Goes on from these averages.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn restore(&mut self, saved: &[Tensor]) -> Result<(), TchError> {
        for (tensor, saved) in self.tensors.iter_mut().zip(saved) {
            tensor.f_copy_(saved)?;
        }
        Ok(())
    }

    /// The averages.
    pub(crate) fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The weights that learn.
    pub(crate) fn raw<'a>(&'a self, parameters: &'a Parameters) -> &'a [Tensor] {
        self.raw.as_deref().unwrap_or(&parameters.tensors)
    }

    /// Gives the model the average to forecast with, until it is to learn again.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn put_in(&mut self, parameters: &mut Parameters) -> Result<(), ModelError> {
        if self.raw.is_none() {
            self.raw = Some(parameters.snapshot()?);
            parameters.restore(&self.tensors)?;
        }
        Ok(())
    }

    /// Gives the model the weights back that learn.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn take_out(&mut self, parameters: &mut Parameters) -> Result<(), ModelError> {
        match self.raw.take() {
            None => Ok(()),
            Some(raw) => parameters.restore(&raw),
        }
    }
}

/// How much of itself the average keeps after a step.
fn kept(decay: f64, step: u64) -> f64 {
    let step = step as f64;
    decay.min((1.0 + step) / (10.0 + step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;
    use tch::Device;

    fn parameters() -> Parameters {
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(3));
        parameters.draw("w", &[2, 3], 1.0, &mut random, Device::Cpu).unwrap();
        parameters.fill("b", &[2], 1.0, Device::Cpu).unwrap();
        parameters
    }

    fn first(tensors: &[Tensor]) -> f64 {
        tensors[1].double_value(&[0])
    }

    #[test]
    fn it_is_the_published_average() {
        let mut parameters = parameters();
        let mut average = Average::new(&parameters, 0.5).unwrap();
        let mut expected = 1.0;
        for step in 1..=20 {
            let value = (step * step) as f64;
            tch::no_grad(|| parameters.tensors[1].fill_(value).requires_grad());
            average.update(&parameters.tensors, step).unwrap();
            let kept = f64::min(0.5, (1 + step) as f64 / (10 + step) as f64);
            expected = kept * expected + (1.0 - kept) * value;
            assert!((first(average.tensors()) / expected - 1.0).abs() < 1e-6);
        }
        assert_eq!(kept(0.5, 1), 2.0 / 11.0, "it begins to forget at once");
    }

    #[test]
    fn the_model_has_it_until_it_learns_again() {
        let mut parameters = parameters();
        let mut average = Average::new(&parameters, 0.9).unwrap();
        tch::no_grad(|| parameters.tensors[1].fill_(5.0).requires_grad());
        for _ in 0..2 {
            average.put_in(&mut parameters).unwrap();
            assert_eq!((first(&parameters.tensors), first(average.raw(&parameters))), (1.0, 5.0));
        }
        for _ in 0..2 {
            average.take_out(&mut parameters).unwrap();
            assert_eq!((first(&parameters.tensors), first(average.raw(&parameters))), (5.0, 5.0));
        }
        assert!(parameters.tensors[1].requires_grad());
    }
}
