//! Minus the information coefficient: Pearson's correlation of outputs and outcomes across the series
//! of one time, averaged over the times, steps and targets of a batch at which it is defined.
//!
//! Batches must hold whole times (`window.order = "by_time"`). A time with fewer than three series, or
//! where either side does not vary, has no part; a batch without any other has a loss of 0. Outcomes are
//! those of the batch, scaled; the loss of a validation or test pass is minus its figure `ic`, which is
//! over all of its times, in user units.
//!
//! What is learned is an order of the series: outputs are scores in no unit ([`Heads::Score`]).

use super::{MeanLoss, Outcomes};
use crate::{
    correlation::LEAST,
    error::TrainError,
    metrics::Metrics,
    settings::{TrainSettings, require},
};
use millstream_data::{Heads, Plan};
use millstream_model::Architecture;
use tch::{Kind, TchError, Tensor};

/// A variance below this share of the mean square is a rounding error.
const NO_VARIANCE: f64 = 1e-12;

pub(super) struct Ic;

impl MeanLoss for Ic {
    fn check_stream(&self, plan: &Plan, _: &dyn Architecture) -> Result<(), TrainError> {
        let expected =
            "another unless window.order = \"by_time\": it compares the series of a time";
        require("train.loss", &"\"ic\"", plan.by_time, expected)?;
        let series = plan.panel.series.len();
        let expected = format!("another with {series} series: it compares {LEAST} or more");
        require("train.loss", &"\"ic\"", series >= LEAST, &expected)
    }

    fn heads(&self, _: &TrainSettings) -> Heads {
        Heads::Score
    }

    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        let rows = came.times.len() as i64;
        let times = Times::new(came.times, outputs)?;
        let flat = |values: &Tensor| values.f_reshape([rows, -1])?.f_to_kind(Kind::Float);
        let (said, said_squared) = times.centred(&flat(outputs)?)?;
        let (came, came_squared) = times.centred(&flat(came.targets)?)?;
        let covariance = times.sums(&said.f_mul(&came)?)?;
        let defined = said_squared
            .varies
            .f_logical_and(&came_squared.varies)?
            .f_logical_and(&times.enough)?;
        let product = said_squared.sum.f_mul(&came_squared.sum)?;
        // Where it is not defined its gradient would be NaN, also when it is left out later.
        let one = product.f_ones_like()?;
        let correlation = covariance.f_div(&product.f_where_self(&defined, &one)?.f_sqrt()?)?;
        let weights = defined.f_to_kind(Kind::Float)?;
        let count = weights.f_sum(Kind::Float)?.f_clamp_min(1.0)?;
        correlation.f_mul(&weights)?.f_sum(Kind::Float)?.f_div(&count)?.f_neg()
    }

    /// A mean that is 0 to the last bit is one of batches in which nothing could be compared.
    fn check_epoch(&self, mean: f64) -> Result<(), TrainError> {
        comparable("training", mean != 0.0)
    }

    fn check_validation(&self, figures: &Metrics) -> Result<(), TrainError> {
        comparable("validation", figures.ic.is_some())
    }

    fn of_pass(&self, figures: &Metrics) -> Option<f64> {
        Some(-figures.ic.unwrap_or(0.0))
    }
}

/// Refuses a part of the data in which nothing is there to be correlated.
fn comparable(part: &str, are: bool) -> Result<(), TrainError> {
    let expected = format!(
        "another: at no time of the {part} part are there {LEAST} series whose outcomes and forecasts differ"
    );
    require("train.loss", &"\"ic\"", are, &expected)
}

/// The times of a batch.
struct Times {
    /// By row: which time it is of.
    of_row: Tensor,
    /// `[times, 1]`: rows of each.
    counts: Tensor,
    /// `[times, 1]`: whether these are enough.
    enough: Tensor,
}

/// Sums of squares, by time and column.
struct Squares {
    sum: Tensor,
    /// Whether it is more than a rounding error.
    varies: Tensor,
}

impl Times {
    /// Rows of one time stand side by side.
    fn new(times: &[i64], like: &Tensor) -> Result<Self, TchError> {
        let mut of_row = Vec::with_capacity(times.len());
        let mut counts = Vec::new();
        for (number, rows) in times.chunk_by(|a, b| a == b).enumerate() {
            of_row.resize(of_row.len() + rows.len(), number as i64);
            counts.push(rows.len() as f32);
        }
        let device = like.device();
        let counts = Tensor::f_from_slice(&counts)?.f_unsqueeze(1)?.f_to_device(device)?;
        let of_row = Tensor::f_from_slice(&of_row)?.f_to_device(device)?;
        Ok(Times { of_row, enough: counts.f_ge(LEAST as f64)?, counts })
    }

    /// Of `[rows, columns]` the sums `[times, columns]`.
    fn sums(&self, values: &Tensor) -> Result<Tensor, TchError> {
        let (times, columns) = (self.counts.size()[0], values.size()[1]);
        let none = Tensor::f_zeros([times, columns], (Kind::Float, values.device()))?;
        none.f_index_add(0, &self.of_row, values)
    }

    /// Distances from the mean of their time, and their squares.
    fn centred(&self, values: &Tensor) -> Result<(Tensor, Squares), TchError> {
        let means = self.sums(values)?.f_div(&self.counts)?;
        let centred = values.f_sub(&means.f_index_select(0, &self.of_row)?)?;
        let sum = self.sums(&centred.f_square()?)?;
        let least = self.sums(&values.f_square()?)?.f_mul_scalar(NO_VARIANCE)?;
        let varies = sum.f_gt_tensor(&least)?;
        Ok((centred, Squares { sum, varies }))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::*, *};
    use crate::{losses::Loss, sample};

    fn pearson(xs: &[f64], ys: &[f64]) -> f64 {
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (mx, my) = (mean(xs), mean(ys));
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            xs.iter().zip(ys).map(|(x, y)| of(x - mx, y - my)).sum()
        };
        sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
    }

    /// Two steps; four series at time 1, two at 2, three at 3, of which the outcomes of the first step
    /// are all alike.
    const TIMES: [i64; 9] = [1, 1, 1, 1, 2, 2, 3, 3, 3];

    fn outcomes() -> Vec<f64> {
        let mut outcomes: Vec<f64> = (0..18).map(|i| ((i * 5 % 13) as f64 - 6.0) * 0.3).collect();
        for row in 6..9 {
            outcomes[2 * row] = 0.7;
        }
        outcomes
    }

    fn formula(outputs: &[f64]) -> f64 {
        let outcomes = outcomes();
        let column = |values: &[f64], rows: std::ops::Range<usize>, step: usize| -> Vec<f64> {
            rows.map(|row| values[2 * row + step]).collect()
        };
        let one = |rows: std::ops::Range<usize>, step| {
            pearson(&column(outputs, rows.clone(), step), &column(&outcomes, rows, step))
        };
        -(one(0..4, 0) + one(0..4, 1) + one(6..9, 1)) / 3.0
    }

    fn tensor(values: &[f64]) -> Tensor {
        let values: Vec<f32> = values.iter().map(|x| *x as f32).collect();
        Tensor::from_slice(&values).view([-1, 2, 1])
    }

    #[test]
    fn loss_and_gradient_are_those_of_the_definition() {
        let at: Vec<f64> = (0..18).map(|i| ((i * 7 % 11) as f64 - 5.0) * 0.21).collect();
        let (targets, heads) = (tensor(&outcomes()), Heads::Score);
        let came = Outcomes { heads: &heads, targets: &targets, times: &TIMES };
        let (loss, gradient) = with_gradient(&Ic, &tensor(&at), &came);
        check_close(&[loss], &[formula(&at)]);
        check_close(&gradient, &differences(formula, &at));
    }

    #[test]
    fn where_nothing_is_defined_the_loss_and_its_gradient_are_zero() {
        let heads = Heads::Score;
        let check = |outputs: &[f64], outcomes: &[f64], times: &[i64]| {
            let targets = tensor(outcomes);
            let came = Outcomes { heads: &heads, targets: &targets, times };
            let (loss, gradient) = with_gradient(&Ic, &tensor(outputs), &came);
            assert!(loss == 0.0 && gradient.iter().all(|by| *by == 0.0), "{loss}, {gradient:?}");
        };
        let rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        check(&rising, &rising, &[1, 2, 3]);
        check(&rising, &rising, &[1, 1, 2]);
        check(&[0.1; 6], &rising, &[1, 1, 1]);
        check(&rising, &[0.1; 6], &[1, 1, 1]);
    }

    #[test]
    fn a_pass_is_judged_by_its_figure() {
        let figures = |ic| Metrics { ic, ..Metrics::default() };
        assert_eq!(Ic.of_pass(&figures(Some(0.25))), Some(-0.25));
        assert_eq!(Ic.of_pass(&figures(None)), Some(0.0));
    }

    #[test]
    fn batches_that_do_not_hold_whole_times_are_refused() {
        let settings = TrainSettings { loss: Loss::Ic, ..TrainSettings::default() };
        let mut plan = sample::plan(1, [8, 0, 0]);
        let refused = |plan: &Plan| {
            let checked = settings.check_stream(plan, &*settings.architecture().unwrap());
            checked.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let expected = "train.loss is \"ic\", but must be another unless window.order = \
                        \"by_time\": it compares the series of a time";
        assert_eq!(refused(&plan), expected);
        plan.by_time = true;
        assert_eq!(refused(&plan), "");
        let mut panel = (*plan.panel).clone();
        panel.series.truncate(2);
        plan.panel = std::sync::Arc::new(panel);
        let expected =
            "train.loss is \"ic\", but must be another with 2 series: it compares 3 or more";
        assert_eq!(refused(&plan), expected);
    }
}
