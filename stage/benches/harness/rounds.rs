//! Rounds: every method once, then every method once again.
//!
//! What the machine does besides changes over minutes, so methods that are compared must take
//! turns. Every second round goes backwards: nobody always comes after the same one, whose traces
//! are in the caches. The first round warms them and is not counted.

use super::{Failure, sample::Sample};
use std::fmt::Write as _;

/// One way to do the work.
pub(crate) trait Method: Copy + PartialEq {
    /// What distinguishes it in a table of results.
    fn describe(self) -> String;
    /// Whether it is another's: such a one may fail, and then gets no figures.
    fn is_peer(self) -> bool;
}

/// What became of a method.
pub(crate) struct Outcome<M, C> {
    pub(crate) method: M,
    pub(crate) samples: Vec<Sample<C>>,
    /// Why a peer has no samples.
    pub(crate) failure: Option<String>,
}

/// One quantity over the rounds, of which less is better.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) best: f64,
    pub(crate) median: f64,
    /// Round by round.
    values: Vec<f64>,
}

impl Figures {
    fn new(values: Vec<f64>) -> Option<Self> {
        let best = values.iter().copied().min_by(f64::total_cmp)?;
        Some(Figures { best, median: median(values.clone())?, values })
    }

    /// How much of this quantity `other` takes for one of ours: the median over the rounds of what
    /// it is in each. What slows a machine down for a second slows both sides of a round, so this
    /// varies less between runs than the ratio of two medians, each from a round of its own.
    pub(crate) fn ratio_of(&self, other: &Figures) -> f64 {
        if self.values.len() != other.values.len() {
            return other.median / self.median;
        }
        let pairs = other.values.iter().zip(&self.values);
        let ratios = median(pairs.map(|(other, own)| other / own).collect());
        ratios.expect("figures are made of at least one round")
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(values[low], values[high]))
}

impl<M: Method, C> Outcome<M, C> {
    pub(crate) fn wall_s(&self) -> Option<Figures> {
        self.figures(|sample| Some(sample.wall_s))
    }

    pub(crate) fn cpu_s(&self) -> Option<Figures> {
        self.figures(|sample| Some(sample.cpu_s))
    }

    pub(crate) fn peak_rss_mb(&self) -> Option<Figures> {
        self.figures(|sample| sample.peak_rss_mb)
    }

    /// The method in its own words, where it has said some.
    pub(crate) fn name(&self) -> String {
        let own = self.samples.first().and_then(|sample| sample.name.clone());
        own.unwrap_or_else(|| self.method.describe())
    }

    fn figures(&self, quantity: impl Fn(&Sample<C>) -> Option<f64>) -> Option<Figures> {
        Figures::new(self.samples.iter().filter_map(quantity).collect())
    }
}

/// Runs all rounds.
///
/// A method of our own that fails ends the bench. A peer that does so gets no figures.
pub(crate) fn run<M: Method, C>(
    methods: &[M],
    rounds: usize,
    mut measure: impl FnMut(M) -> Result<Sample<C>, Failure>,
) -> Result<Vec<Outcome<M, C>>, Failure> {
    let mut outcomes: Vec<Outcome<M, C>> = methods
        .iter()
        .map(|&method| Outcome { method, samples: Vec::new(), failure: None })
        .collect();
    for round in 0..=rounds {
        let label = if round == 0 { "warm-up".into() } else { format!("round {round}/{rounds}") };
        let mut turns: Vec<&mut Outcome<M, C>> = outcomes.iter_mut().collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for outcome in turns.into_iter().filter(|outcome| outcome.failure.is_none()) {
            let method = outcome.method;
            let what = method.describe();
            match measure(method) {
                Ok(sample) => {
                    let Sample { wall_s, cpu_s, .. } = sample;
                    eprintln!("{label}: {what}: {wall_s:.2} s, {cpu_s:.2} s of CPU");
                    if round > 0 {
                        outcome.samples.push(sample);
                    }
                }
                Err(error) if method.is_peer() => {
                    eprintln!("{label}: skipped from here on: {what}: {error}");
                    outcome.failure = Some(error.to_string());
                    outcome.samples.clear();
                }
                Err(error) => return Err(format!("{what}: {error}").into()),
            }
        }
    }
    Ok(outcomes)
}

/// All figures, for people.
pub(crate) fn table<M: Method, C>(outcomes: &[Outcome<M, C>]) -> String {
    let mut text =
        format!("{:56} {:>15} {:>15} {:>8}\n", "best / median", "wall s", "own CPU s", "peak MB");
    for outcome in outcomes {
        let pair = |figures: Option<Figures>| {
            figures.map_or_else(
                || "-".to_owned(),
                |Figures { best, median, .. }| format!("{best:.3} / {median:.3}"),
            )
        };
        let peak = outcome.peak_rss_mb().map_or("-".to_owned(), |mb| format!("{:.0}", mb.median));
        let (wall, cpu) = (pair(outcome.wall_s()), pair(outcome.cpu_s()));
        writeln!(text, "{:56} {wall:>15} {cpu:>15} {peak:>8}", outcome.name())
            .expect("a String takes every write");
    }
    text
}
