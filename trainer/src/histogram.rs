//! Histograms of weights, as TensorBoard shows them.

use crate::event_messages::{Histogram, Value};
use tch::{Kind, TchError, Tensor};

/// As many buckets as TensorBoard's own summaries have.
const BUCKETS: usize = 30;

/// One of each tensor, which are on the host, by its name.
///
/// # Errors
/// When libtorch fails.
pub(crate) fn histograms(names: &[String], weights: &[Tensor]) -> Result<Vec<Value>, TchError> {
    let mut shown = Vec::new();
    for (name, weights) in names.iter().zip(weights) {
        let mut numbers = vec![0.0_f32; weights.numel()];
        weights.f_to_kind(Kind::Float)?.f_copy_data(&mut numbers, weights.numel())?;
        let histogram = histogram(&numbers);
        shown.extend(histogram.map(|it| Value::histogram(format!("weights/{name}"), it)));
    }
    Ok(shown)
}

/// Of numbers that are finite; of the others, and of none at all, there is nothing to show.
fn histogram(numbers: &[f32]) -> Option<Histogram> {
    let numbers = || numbers.iter().map(|&x| f64::from(x)).filter(|x| x.is_finite());
    let (min, max) = numbers().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| {
        (f64::min(min, x), f64::max(max, x))
    });
    if min > max {
        return None;
    }
    // All equal, they still need a bucket with a width.
    let width = if max > min { max - min } else { min.abs().max(1.0) * 1e-6 };
    let each = width / BUCKETS as f64;
    let mut histogram = Histogram { min, max, ..Histogram::default() };
    histogram.limits = (1..=BUCKETS).map(|n| min + each * n as f64).collect();
    histogram.buckets = vec![0.0; BUCKETS];
    for x in numbers() {
        let bucket = ((x - min) / each) as usize;
        histogram.buckets[bucket.min(BUCKETS - 1)] += 1.0;
        histogram.count += 1.0;
        histogram.sum += x;
        histogram.sum_squares += x * x;
    }
    Some(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(numbers: &[f32], expected: &[(usize, f64)]) {
        let Histogram { limits, buckets, count, .. } = histogram(numbers).unwrap();
        assert_eq!((limits.len(), buckets.len()), (30, 30));
        assert!(limits.windows(2).all(|pair| pair[0] < pair[1]), "{limits:?}");
        assert_eq!(buckets.iter().sum::<f64>(), count);
        let filled = buckets.into_iter().enumerate().filter(|(_, count)| *count > 0.0);
        assert_eq!(filled.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_finite_number_is_in_a_bucket() {
        check(&[0.0, 0.5, 29.5, 30.0, f32::NAN], &[(0, 2.0), (29, 2.0)]);
        check(&[7.0; 5], &[(0, 5.0)]);
        check(&[0.0], &[(0, 1.0)]);
        assert_eq!(histogram(&[f32::NAN, f32::INFINITY]), None);
        let of = histogram(&[-1.0, 3.0]).unwrap();
        assert_eq!((of.min, of.max, of.sum, of.sum_squares), (-1.0, 3.0, 2.0, 10.0));
        assert!((of.limits[29] - 3.0).abs() < 1e-12);
    }
}
