//! How much memory a model takes, held against what there is before any of it is asked for.
//!
//! An estimate from below: what training keeps of every weight and of every layer. What a step needs
//! besides is not counted, so that nothing is refused that would work.

use crate::{error::ModelError, model::Shape, models::LstmOptions};

/// Weights, gradients, AdamW's two moments and the best weights so far.
const COPIES: f64 = 5.0;

/// What the objects of a layer's tensors take, whatever their size, in bytes.
const PER_LAYER: f64 = 16_384.0;

/// Bytes for an LSTM of this size. Numbers are far beyond whole ones, where they matter.
fn lstm_bytes(shape: &Shape, hidden: f64, layers: f64) -> f64 {
    let first = 4.0 * hidden * (shape.features as f64 + hidden + 2.0);
    let further = (layers - 1.0) * 4.0 * hidden * (2.0 * hidden + 2.0);
    let head = shape.labels() as f64 * (hidden + 1.0);
    let states = 2.0 * layers * shape.batch_size as f64 * hidden;
    4.0 * ((first + further + head) * COPIES + states) + PER_LAYER * layers
}

/// Refuses an LSTM that cannot fit into so many bytes.
///
/// # Errors
/// [`ModelError::Setting`] with the largest value that would fit.
pub(crate) fn check_lstm(
    options: &LstmOptions,
    shape: &Shape,
    available: u64,
) -> Result<(), ModelError> {
    let (hidden, layers) = (options.hidden.get(), options.layers.get());
    let bytes = |hidden: u64, layers: u64| lstm_bytes(shape, hidden as f64, layers as f64);
    let fits = |hidden: u64, layers: u64| bytes(hidden, layers) <= available as f64;
    if fits(hidden as u64, layers as u64) {
        return Ok(());
    }
    let (key, value, most) = if fits(hidden as u64, 1) {
        ("train.model_options.layers", layers, largest(|layers| fits(hidden as u64, layers)))
    } else {
        // With fewer layers where no hidden size fits into those that were asked for.
        let layers = if fits(1, layers as u64) { layers as u64 } else { 1 };
        ("train.model_options.hidden", hidden, largest(|hidden| fits(hidden, layers)))
    };
    let needed = gigabytes(bytes(hidden as u64, layers as u64));
    let (value, there) = (value.to_string(), gigabytes(available as f64));
    let expected = format!(
        "at most {most}: this model takes {needed} to train, and {there} of memory are there"
    );
    Err(ModelError::Setting { key, value, expected })
}

/// The largest number that fits; all below it do too.
fn largest(fits: impl Fn(u64) -> bool) -> u64 {
    let (mut fitting, mut beyond) = (0, 1u64 << 63);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(middle) { fitting = middle } else { beyond = middle }
    }
    fitting
}

fn gigabytes(bytes: f64) -> String {
    match bytes / 1e9 {
        gigabytes if gigabytes < 1e6 => format!("{gigabytes:.1} GB"),
        gigabytes => format!("{gigabytes:.0e} GB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape { features: 105, batch_size: 256, ..Shape::LEAST };

    fn check(hidden: usize, layers: usize, expected: Option<&str>) {
        let size = |value: usize| value.try_into().unwrap();
        let options =
            LstmOptions { hidden: size(hidden), layers: size(layers), ..LstmOptions::default() };
        let found = check_lstm(&options, &SMALL, 16_000_000_000).map_err(|error| error.to_string());
        assert_eq!(found.err().as_deref(), expected, "{hidden} × {layers}");
    }

    #[test]
    fn what_cannot_fit_is_refused_with_what_would() {
        check(64, 1, None);
        check(14_000, 1, None);
        check(
            1_000_000,
            1,
            Some(
                "train.model_options.hidden is 1000000, but must be at most 14075: this model takes \
                 80010.6 GB to train, and 16.0 GB of memory are there",
            ),
        );
        check(64, 1000, None);
        check(
            64,
            1 << 31,
            Some(
                "train.model_options.layers is 2147483648, but must be at most 19678: this model \
                 takes 2e6 GB to train, and 16.0 GB of memory are there",
            ),
        );
        for extreme in [1 << 32, i64::MAX as usize, usize::MAX] {
            for (hidden, layers) in [(extreme, 1), (64, extreme), (extreme, extreme), (1, extreme)]
            {
                let options = LstmOptions {
                    hidden: hidden.try_into().unwrap(),
                    layers: layers.try_into().unwrap(),
                    ..LstmOptions::default()
                };
                let error = check_lstm(&options, &SMALL, 16_000_000_000).unwrap_err().to_string();
                assert!(!error.contains("at most 0:"), "{error}");
            }
        }
    }
}
