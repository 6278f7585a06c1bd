//! The scalers: one file and one line of [`scalers!`] each.
//!
//! A scaler says what it must know of a column's training values ([`Needs`]) and makes a fit of it. How
//! that is found out is not its business: whole columns are measured in one pass over the panel where
//! moments are enough; sorted values, single series and values relative to a window are collected.

use crate::{
    column_fit::ColumnFit,
    moments::{Moments, log1p, mean_and_deviation},
};
use millstream_data::Curve;
use serde::{Deserialize, Serialize};

macro_rules! scalers {
    ($($file:ident::$name:ident: $about:literal),* $(,)?) => {
        $(mod $file;)*

        /// How the scale of a column is fitted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ScaleMethod {
            $(#[doc = $about] $name,)*
        }

        impl ScaleMethod {
            /// Every scaler there is.
            pub const ALL: &[ScaleMethod] = &[$(ScaleMethod::$name),*];

            /// Its name in settings.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(ScaleMethod::$name => stringify!($file),)*
                }
            }

            fn scaler(self) -> &'static dyn Scaler {
                match self {
                    $(ScaleMethod::$name => &$file::$name,)*
                }
            }
        }
    };
}

scalers! {
    zscore::Zscore: "Mean 0, standard deviation 1.",
    robust::Robust: "Median 0, distance between the quartiles 1.",
    minmax::Minmax: "Minimum 0, maximum 1.",
    rank_normal::RankNormal: "The normal score of the value's rank.",
    log1p::Log1p: "`sign(x) * ln(1 + |x|)`, then mean 0 and standard deviation 1.",
    none::None: "Values as they are.",
}

/// How one scaler is fitted.
trait Scaler: Sync {
    /// What it must know.
    fn needs(&self) -> Needs;

    /// The fit of a column that has values.
    fn fit(&self, column: &Measured<'_>) -> ColumnFit;

    /// Whether it bends what it scales: what is relative to a window cannot be scaled by it.
    fn is_curved(&self) -> bool {
        false
    }
}

/// What a scaler must know of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing but their mean.
    Nothing,
    /// Mean and deviation.
    Moments,
    /// Minimum and maximum too.
    Extremes,
    /// Mean and deviation of their logarithms.
    LogMoments,
    /// All of them, sorted.
    Sorted,
}

/// What was found out about a column's values: as much as its scaler needs.
struct Measured<'a> {
    /// In raw units.
    mean: f64,
    /// Mean and deviation of the values, or of their logarithms.
    moments: (f64, f64),
    /// Minimum and maximum.
    extremes: (f64, f64),
    sorted: &'a [f32],
}

impl Measured<'_> {
    /// The value below which `part` of `parts` of the sorted values lie, between the two nearest.
    fn quantile(&self, part: usize, parts: usize) -> f64 {
        // In whole numbers: a place that is one of the values must be exactly that value, or equal
        // values would make knots that differ.
        let place = part as u128 * (self.sorted.len() - 1) as u128;
        let (at, rest) = ((place / parts as u128) as usize, (place % parts as u128) as f64);
        let below = f64::from(self.sorted[at]);
        if rest == 0.0 {
            return below;
        }
        below + (f64::from(self.sorted[at + 1]) - below) * (rest / parts as f64)
    }
}

impl ScaleMethod {
    /// What it must know of a column's values.
    pub(crate) fn needs(self) -> Needs {
        self.scaler().needs()
    }

    /// Whether moments are all that it needs, so that all columns are measured in one pass.
    pub(crate) fn is_fitted_by_moments(self) -> bool {
        matches!(self.needs(), Needs::Moments | Needs::Extremes | Needs::LogMoments)
    }

    /// Whether it bends what it scales.
    pub(crate) fn is_curved(self) -> bool {
        self.scaler().is_curved()
    }

    /// The names of those that do not, for a message.
    pub(crate) fn straight_names() -> String {
        let straight = ScaleMethod::ALL.iter().filter(|method| !method.is_curved());
        let names: Vec<String> = straight.map(|method| format!("{:?}", method.name())).collect();
        let (last, others) = names.split_last().expect("there are scalers that bend nothing");
        format!("{} or {last}", others.join(", "))
    }

    /// Fits column number `at` of what one pass over the panel found; of logarithms, where those are
    /// what it needs.
    pub(crate) fn fit_moments(self, moments: &Moments, at: usize) -> ColumnFit {
        if moments.count[at] == 0 {
            return ColumnFit::no_value();
        }
        let mean = moments.mean[at];
        self.scaler().fit(&Measured {
            mean: if self.needs() == Needs::LogMoments { Curve::Log1p.invert(mean) } else { mean },
            moments: (mean, moments.deviation(at)),
            extremes: (moments.min[at].into(), moments.max[at].into()),
            sorted: &[],
        })
    }

    /// Fits `values`, which are all known. Their order does not matter, and is lost.
    pub(crate) fn fit_values(self, values: &mut [f32]) -> ColumnFit {
        let needs = self.needs();
        if values.is_empty() {
            let is_fitted = needs != Needs::Nothing;
            return if is_fitted { ColumnFit::no_value() } else { ColumnFit::identity() };
        }
        let raw = mean_and_deviation(values.iter().map(|x| f64::from(*x)));
        let mut moments = raw;
        let mut extremes = (f64::NAN, f64::NAN);
        match needs {
            Needs::Nothing | Needs::Moments => {}
            Needs::Extremes => {
                let min = values.iter().copied().fold(f32::INFINITY, f32::min);
                let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                extremes = (min.into(), max.into());
            }
            Needs::LogMoments => {
                moments = mean_and_deviation(values.iter().map(|x| f64::from(log1p(*x))));
            }
            Needs::Sorted => values.sort_unstable_by(f32::total_cmp),
        }
        self.scaler().fit(&Measured { mean: raw.0, moments, extremes, sorted: values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaler_is_called_in_settings_as_its_file_is() {
        for method in ScaleMethod::ALL {
            let name = format!("{:?}", method.name());
            assert_eq!(serde_json::to_string(method).unwrap(), name);
        }
    }

    #[test]
    fn whatever_the_scaler_nothing_is_divided_by_zero() {
        for method in ScaleMethod::ALL {
            let fitting = method.fit_values(&mut [0.0, 0.0]);
            assert_eq!((fitting.fit.scale, fitting.mean), (1.0, 0.0), "{method:?}");
            let empty = method.fit_values(&mut []).fit;
            assert_eq!((empty.offset, empty.scale), (0.0, 1.0), "{method:?}");
        }
    }
}
