//! [`ColumnFit`]: what was learned of one column.

use millstream_data::{Curve, Fit};

/// A fit, and what else is known of the values it was made of.
#[derive(Debug, Clone)]
pub(crate) struct ColumnFit {
    pub(crate) fit: Fit,
    pub(crate) mean: f64,
    pub(crate) spread: Spread,
}

/// Below this every whole number is a `f32`.
const WHOLE: f64 = (1u32 << f32::MANTISSA_DIGITS) as f64;

/// Whether there is anything to scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    Some,
    Constant,
    /// Constant, but so large or small that a change may have been rounded away before it came here.
    Rounded,
    NoValue,
}

impl Spread {
    /// Of a column whose values all are this one.
    pub(crate) fn none_around(value: f64) -> Self {
        // The smallest numbers have fewer digits the smaller they are.
        let is_exact =
            value == 0.0 || value.abs() > f64::from(f32::MIN_POSITIVE) / f64::from(f32::EPSILON);
        if is_exact && value.abs() < WHOLE { Spread::Constant } else { Spread::Rounded }
    }
}

impl ColumnFit {
    pub(crate) fn identity() -> Self {
        ColumnFit { fit: Fit::IDENTITY, mean: 0.0, spread: Spread::Some }
    }

    /// With this offset and scale. A column that is constant or has no value at all keeps its
    /// unit: its scale is 1, never 0 and never infinite.
    pub(crate) fn affine(curve: Curve, offset: f64, scale: f64, mean: f64) -> Self {
        // Below what f32 can resolve around the offset, the spread is rounding noise.
        let spread = scale.is_finite()
            && scale > f64::from(f32::EPSILON) * offset.abs()
            && scale > f64::from(f32::MIN_POSITIVE);
        let scale = if spread { scale } else { 1.0 };
        let spread = if spread { Spread::Some } else { Spread::none_around(mean) };
        ColumnFit { fit: Fit { curve, offset, scale }, mean, spread }
    }

    pub(crate) fn no_value() -> Self {
        ColumnFit { spread: Spread::NoValue, ..ColumnFit::identity() }
    }
}
