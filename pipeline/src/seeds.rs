//! [`SeedsReport`]: what several runs found that differ in nothing but their seed. One seed is luck;
//! how far several lie apart says how much of a difference is.

use crate::report::Report;
use millstream_trainer::Figures;
use serde::Serialize;
use std::collections::BTreeMap;

/// The figures of several runs, together. Runs that were interrupted are listed and not counted.
///
/// ```
/// use millstream::{Settings, SeedsReport, train};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let run = folder.path().display();
/// let runs = (1..=2).map(|seed| {
///     let settings = Settings::from_toml(&format!(
///         r#"
///         source = {{ cache = "", generate = {{ series = 20, rows = 120 }} }}
///         window.lookback = 20
///         train = {{ epochs = 1, model_options.hidden = 4, seed = {seed} }}
///         run.dir = "{run}"
///         "#
///     ))?;
///     Ok((seed, train(settings)?))
/// });
/// let report = SeedsReport::new(runs.collect::<Result<_, millstream::Error>>()?);
/// assert!(report.test["mse"].std.is_some_and(|std| std > 0.0));
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct SeedsReport {
    /// Whether a run was cut short, or not begun at all.
    pub interrupted: bool,
    /// Of the runs, in their order.
    pub seeds: Vec<u64>,
    /// Mean training loss of the last epoch.
    pub train_loss: Option<Spread>,
    /// Validation figures of the best epochs, by name. A figure that some run lacks is of the others.
    pub validation: BTreeMap<String, Spread>,
    /// Test figures, likewise.
    pub test: BTreeMap<String, Spread>,
    /// Each run by itself.
    pub runs: Vec<Report>,
    /// What a person was warned of in any of them.
    pub warnings: Vec<String>,
}

/// Where some numbers lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, as that of a sample (n - 1); `None` for a single number.
    pub std: Option<f64>,
    /// How many they are.
    pub count: usize,
}

impl SeedsReport {
    /// Of these runs, each with its seed.
    #[must_use]
    pub fn new(runs: Vec<(u64, Report)>) -> Self {
        let (seeds, runs): (Vec<u64>, Vec<Report>) = runs.into_iter().unzip();
        let complete: Vec<&Report> = runs.iter().filter(|run| !run.interrupted).collect();
        let spreads_of = |figures: fn(&Report) -> Option<&Figures>| {
            spreads(complete.iter().filter_map(|run| figures(run)))
        };
        let losses: Vec<f64> = complete.iter().filter_map(|run| run.train_loss).collect();
        let mut warnings: Vec<String> = Vec::new();
        for line in runs.iter().flat_map(|run| &run.warnings) {
            if !warnings.contains(line) {
                warnings.push(line.clone());
            }
        }
        SeedsReport {
            interrupted: complete.len() < runs.len(),
            train_loss: Spread::of(&losses),
            validation: spreads_of(|run| run.validation.as_ref()),
            test: spreads_of(|run| run.test.as_ref()),
            seeds,
            warnings,
            runs,
        }
    }
}

/// Where each figure of several runs lies, by its name.
pub(crate) fn spreads<'a>(runs: impl Iterator<Item = &'a Figures>) -> BTreeMap<String, Spread> {
    let mut numbers: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in runs.flat_map(by_name) {
        numbers.entry(name).or_default().push(value);
    }
    let spreads = numbers.into_iter();
    spreads.filter_map(|(name, values)| Some((name, Spread::of(&values)?))).collect()
}

/// The numbers over all steps and targets.
fn by_name(figures: &Figures) -> Vec<(String, f64)> {
    let overall = serde_json::to_value(figures.overall).expect("plain structs always serialise");
    let fields = overall.as_object().cloned().unwrap_or_default().into_iter();
    fields.filter_map(|(name, value)| Some((name, value.as_f64()?))).collect()
}

impl Spread {
    /// Of these; `None` where there is no number.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let count = numbers.len();
        let mean = numbers.iter().sum::<f64>() / count as f64;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        let std = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        (count > 0).then_some(Spread { mean, std, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_trainer::Metrics;

    fn run(mse: f64, interrupted: bool) -> Report {
        let overall = Metrics { mse: Some(mse), ..Metrics::default() };
        let test = (!interrupted).then(|| Figures { overall, ..Figures::default() });
        let warnings = vec!["said in each".to_owned()];
        Report { interrupted, test, train_loss: Some(mse / 2.0), warnings, ..Report::default() }
    }

    #[test]
    fn mean_and_standard_deviation_are_those_of_a_sample() {
        let report = SeedsReport::new(vec![
            (7, run(1.0, false)),
            (8, run(2.0, false)),
            (9, run(6.0, false)),
            (10, run(99.0, true)),
        ]);
        let expected = Spread { mean: 3.0, std: Some(7.0_f64.sqrt()), count: 3 };
        assert_eq!(report.test, BTreeMap::from([("mse".to_owned(), expected)]));
        assert_eq!(report.train_loss.unwrap().mean, 1.5);
        assert!(report.validation.is_empty() && report.interrupted);
        assert_eq!((report.seeds, report.warnings.len()), (vec![7, 8, 9, 10], 1));
        let single = SeedsReport::new(vec![(7, run(1.0, false))]);
        assert_eq!(single.test["mse"], Spread { mean: 1.0, std: None, count: 1 });
        assert!(!single.interrupted);
        assert_eq!(SeedsReport::new(Vec::new()).train_loss, None);
    }
}
