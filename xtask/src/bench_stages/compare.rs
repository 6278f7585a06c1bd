//! Two reports side by side: what became slower, and how well the stable cases repeat.

use std::fmt;

use super::report::Report;
use super::stable::is_stable;

/// A case that both reports have.
#[derive(Debug)]
pub(super) struct Change {
    name: String,
    before: f64,
    after: f64,
}

/// All cases that both reports have.
#[derive(Debug)]
pub(super) struct Comparison {
    changes: Vec<Change>,
    /// A fraction of the old ratio.
    tolerance: f64,
}

impl Comparison {
    pub(super) fn new(old: &Report, new: &Report, tolerance: f64) -> Self {
        let find = |name: &str| old.cases.iter().find(|case| case.name() == name);
        let changes = new.cases.iter().filter_map(|case| {
            let name = case.name();
            let before = find(&name)?.ratio;
            Some(Change { name, before, after: case.ratio })
        });
        Self { changes: changes.collect(), tolerance }
    }

    /// What lies outside of the tolerance, in either direction.
    pub(super) fn outside(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.by().abs() > self.tolerance)
    }

    /// How many stable cases fell behind. What others do proves nothing.
    pub(super) fn slower(&self) -> usize {
        let fell = |change: &&Change| change.by() < 0.0 && is_stable(&change.name);
        self.outside().filter(fell).count()
    }

    /// How many of the stable cases lie within the tolerance.
    pub(super) fn repeated(&self) -> String {
        let stable = || self.changes.iter().filter(|change| is_stable(&change.name));
        let within = stable().filter(|change| change.by().abs() <= self.tolerance).count();
        let percent = self.tolerance * 100.0;
        format!("{within} of {} stable cases within {percent:.0} % in ratio", stable().count())
    }
}

impl Change {
    /// As a fraction of the old ratio.
    fn by(&self) -> f64 {
        self.after / self.before - 1.0
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, before, after } = self;
        let word = if self.by() < 0.0 { "slower" } else { "faster" };
        let percent = self.by() * 100.0;
        write!(f, "{word}: {name}: ratio {after:.3}, was {before:.3} ({percent:+.1} %)")?;
        if is_stable(name) { Ok(()) } else { f.write_str(", not a stable case") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_stages::report::tests::report;

    #[test]
    fn both_directions_are_told_and_only_a_stable_fall_counts() {
        let stable = ["fill-shuffled", "fit-apply", "fill-reference-last"];
        assert!(stable.iter().all(|case| is_stable(&format!("normalize/{case}"))));
        let [fill, fit, last] = stable;
        let old = report(&[(fill, 0.80), (fit, 0.50), (last, 0.50), ("gone", 0.9), ("odd", 1.0)]);
        let new = report(&[(fill, 0.73), (fit, 0.44), (last, 0.60), ("fresh", 0.1), ("odd", 0.5)]);
        let comparison = Comparison::new(&old, &new, 0.10);
        let outside: Vec<String> = comparison.outside().map(ToString::to_string).collect();
        assert_eq!(
            outside,
            [
                "slower: normalize/fit-apply: ratio 0.440, was 0.500 (-12.0 %)",
                "faster: normalize/fill-reference-last: ratio 0.600, was 0.500 (+20.0 %)",
                "slower: normalize/odd: ratio 0.500, was 1.000 (-50.0 %), not a stable case",
            ]
        );
        assert_eq!(comparison.slower(), 1);
        assert_eq!(comparison.repeated(), "1 of 3 stable cases within 10 % in ratio");
        let comparison = Comparison::new(&old, &new, 0.25);
        assert_eq!(comparison.slower(), 0);
        assert_eq!(comparison.repeated(), "3 of 3 stable cases within 25 % in ratio");
    }
}
