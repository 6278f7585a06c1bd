//! Whether libtorch can train a model in a precision at all: it has not every operator for every type on
//! every device. A tiny batch says so before the run begins, instead of a step in the middle.

use crate::error::TrainError;
use millstream_data::BatchLayout;
use millstream_model::{Inputs, Mode, Model, ModelError, Precision, reason};
use tch::{Device, Kind, TchError, Tensor};

/// Takes gradients of the forecasts of two windows of zeros, and forgets them.
///
/// # Errors
/// [`TrainError::Setting`] of `train.precision` where libtorch cannot.
pub(crate) fn check(
    precision: Precision,
    model: &dyn Model,
    name: &str,
    layout: &BatchLayout,
    device: Device,
) -> Result<(), TrainError> {
    // What is wrong in 32 bits is nothing of the precision's.
    if precision == Precision::F32 {
        return Ok(());
    }
    let refused = |why: String| TrainError::Setting {
        key: "train.precision",
        value: format!("\"{precision}\""),
        expected: format!(
            "another with train.model = \"{name}\": libtorch cannot train it so on {} ({why})",
            if device == Device::Cpu { "a CPU" } else { "this device" }
        ),
    };
    let inputs = inputs(layout, device)?;
    let forecast = precision.forward(model, &inputs, Mode::Train);
    let forecast = forecast.map_err(|error| match error {
        ModelError::Torch { reason } => refused(reason),
        error => error.into(),
    })?;
    let learned = || -> Result<(), TchError> {
        let sum = forecast.f_sum(Kind::Float)?;
        Tensor::f_run_backward(&[sum], &model.parameters().tensors, false, false).map(drop)
    };
    learned().map_err(|error| refused(reason(&error)))
}

/// Two windows of zeros, all of them real.
fn inputs(layout: &BatchLayout, device: Device) -> Result<Inputs, TchError> {
    let zeros = |sizes: &[usize]| {
        let sizes: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
        Tensor::f_zeros(&sizes[..], (Kind::Float, device))
    };
    let &BatchLayout { lookback, features, extras, .. } = layout;
    let (padding, segments) = (extras.padding, extras.segments);
    let real = |value: i64, sizes: &[usize]| zeros(sizes)?.f_add_scalar(value);
    Ok(Inputs {
        values: zeros(&[2, lookback, features])?,
        lengths: padding.then(|| real(lookback as i64, &[2])).transpose()?,
        mask: padding.then(|| real(1, &[2, lookback])).transpose()?,
        segments: segments.then(|| zeros(&[2, lookback])).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{Extras, SplitMix64};
    use millstream_model::{ModelKind, ModelOptions, Parameters, Shape};

    const LAYOUT: BatchLayout = BatchLayout {
        batch_size: 2,
        lookback: 6,
        features: 1,
        horizon: 1,
        targets: 1,
        extras: Extras::NONE,
    };

    #[test]
    fn every_model_can_be_trained_in_every_precision() {
        let mut shape = Shape::LEAST;
        (shape.batch_size, shape.lookback) = (2, 6);
        for kind in ModelKind::ALL.iter().filter(|kind| kind.name() != "script") {
            let model = kind.architecture(&ModelOptions::default()).unwrap();
            let model = model.build(&shape, 1, Device::Cpu).unwrap();
            for precision in Precision::ALL {
                let checked = check(precision, &*model, kind.name(), &LAYOUT, Device::Cpu);
                match checked.map_err(|error| error.to_string()) {
                    Ok(()) => {}
                    // libtorch computes an LSTM in 16 bits where the processor does.
                    Err(error) if kind.name() == "lstm" => {
                        assert!(error.starts_with("train.precision is ") && !error.contains('\n'));
                        println!("SKIPPED: {error}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(model.parameters().tensors.iter().all(|tensor| !tensor.grad().defined()));
        }
    }

    /// A model with an operator that libtorch has not for 16 bits on a CPU.
    #[derive(Debug)]
    struct Whole(Parameters);

    impl Model for Whole {
        fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
            let rows =
                inputs.values.f_select(1, -1)?.f_linear(&self.0.tensors[0], None::<Tensor>)?;
            let square = rows.f_matmul(&rows.f_transpose(0, 1)?)?;
            Ok(square.f_logdet()?.f_expand([2, 1, 1], false)?)
        }
        fn parameters(&self) -> &Parameters {
            &self.0
        }
        fn parameters_mut(&mut self) -> &mut Parameters {
            &mut self.0
        }
    }

    #[test]
    fn what_libtorch_cannot_is_refused_in_one_line() {
        let mut parameters = Parameters::default();
        parameters.draw("w", &[1, 1], 1.0, &mut SplitMix64::new(1), Device::Cpu).unwrap();
        let model = Whole(parameters);
        let with = |precision| check(precision, &model, "mine", &LAYOUT, Device::Cpu);
        with(Precision::F32).unwrap();
        let error = with(Precision::F16).unwrap_err().to_string();
        let expected = "train.precision is \"f16\", but must be another with train.model = \
                        \"mine\": libtorch cannot train it so on a CPU (";
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
    }
}
