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
    /// The middle half of the rounds.
    pub(crate) low: f64,
    pub(crate) high: f64,
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
        quantile(&mut self.seconds[way].clone(), 0.5)
    }

    /// How many times as fast `after` is as `before`. Both were next to each other in every round,
    /// so each round is a comparison of its own.
    pub(crate) fn gain(&self, before: usize, after: usize) -> Gain {
        let pairs = self.seconds[before].iter().zip(&self.seconds[after]);
        let mut ratios: Vec<f64> = pairs.map(|(before, after)| before / after).collect();
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| quantile(&mut ratios, share));
        Gain { median, low, high }
    }
}

impl Gain {
    pub(crate) fn percent(self) -> f64 {
        (self.median - 1.0) * 100.0
    }

    /// The middle half of the rounds, which tells what of a few percent is noise.
    pub(crate) fn percent_range(self) -> String {
        let [low, high] = [self.low, self.high].map(|gain| (gain - 1.0) * 100.0);
        format!("the middle half of the rounds is {low:+.1} to {high:+.1} %")
    }
}

/// The value below which this share of the values lies; half-way where it lies between two.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() - 1) as f64 * share;
    f64::midpoint(values[at.floor() as usize], values[at.ceil() as usize])
}
