//! Ways to do the same work take turns, and are compared round by round.

use crate::harness::{
    Failure,
    rounds::{self, Method},
    sample::{Clock, Whose},
};

/// One way to do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    name: &'static str,
    index: usize,
}

impl Method for Way {
    fn describe(self) -> String {
        self.name.to_owned()
    }

    fn is_peer(self) -> bool {
        false
    }
}

/// The seconds of every way in every round.
pub(crate) struct Turns {
    seconds: Vec<Vec<f64>>,
}

/// How many times as fast one way is as another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gain {
    /// The median over the rounds.
    pub(crate) median: f64,
    /// What the median lies between with a confidence of 95 %.
    low: f64,
    high: f64,
}

impl Turns {
    /// Has every way do its work once a round; `work` gets the way's position among the names.
    pub(crate) fn take(
        names: &[&'static str],
        rounds: usize,
        mut work: impl FnMut(usize) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let ways: Vec<Way> =
            names.iter().enumerate().map(|(index, name)| Way { name, index }).collect();
        let outcomes = rounds::run(&ways, rounds, |way| {
            let clock = Clock::start(Whose::Own)?;
            work(way.index)?;
            clock.stop::<()>()
        })?;
        let seconds = outcomes
            .iter()
            .map(|outcome| outcome.samples.iter().map(|sample| sample.wall_s).collect())
            .collect();
        Ok(Turns { seconds })
    }

    /// The median seconds of a way.
    pub(crate) fn median(&self, way: usize) -> f64 {
        median(&mut self.seconds[way].clone())
    }

    /// How many times as fast `after` is as `before`. Both were next to each other in every round,
    /// so each round is a comparison of its own.
    pub(crate) fn gain(&self, before: usize, after: usize) -> Gain {
        let pairs = self.seconds[before].iter().zip(&self.seconds[after]);
        let mut ratios: Vec<f64> = pairs.map(|(before, after)| before / after).collect();
        let median = median(&mut ratios);
        // How many of the rounds are below the true median is binomial, whatever their
        // distribution; 0.98 is half of the 1.96 deviations that hold 95 % of it.
        let rounds = ratios.len() as f64;
        let (middle, reach) = ((rounds - 1.0) / 2.0, 0.98 * rounds.sqrt());
        let low = ratios[(middle - reach).max(0.0).floor() as usize];
        let high = ratios[(middle + reach).min(rounds - 1.0).ceil() as usize];
        Gain { median, low, high }
    }
}

impl Gain {
    pub(crate) fn percent(self) -> f64 {
        (self.median - 1.0) * 100.0
    }

    /// The interval, which tells what of a few percent is noise.
    pub(crate) fn percent_range(self) -> String {
        let [low, high] = [self.low, self.high].map(|gain| (gain - 1.0) * 100.0);
        format!("95 % confidence: {low:+.1} to {high:+.1} %")
    }
}

/// The middle of the values, which are sorted for it.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}
