//! What tells whether a reader read the right thing.

use crate::harness::{Failure, sample};
use serde::{Deserialize, Serialize};

/// One load. Its CPU time is that of the client alone: the server's own is the same whoever reads,
/// and part of nobody's figures.
pub(crate) type Sample = sample::Sample<Content>;

/// What was read; `None` for a reader that looks at no values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Content {
    #[serde(default)]
    pub(crate) rows: Option<u64>,
    #[serde(default)]
    pub(crate) sum_close_pct: Option<f64>,
    #[serde(default)]
    pub(crate) nulls_f001: Option<u64>,
}

impl Content {
    /// What is in these rows.
    pub(crate) fn of<'a, R: Iterator<Item = &'a [f32]>>(
        columns: &[String],
        rows: impl Fn() -> R,
    ) -> Result<Self, Failure> {
        let position = |name: &str| {
            columns.iter().position(|column| column == name).ok_or_else(|| format!("no {name}"))
        };
        let (target, feature) = (position("close_pct")?, position("f001")?);
        Ok(Content {
            rows: Some(rows().count() as u64),
            sum_close_pct: Some(rows().map(|row| f64::from(row[target])).sum()),
            nulls_f001: Some(rows().filter(|row| row[feature].is_nan()).count() as u64),
        })
    }

    /// Whether everything is known that can be compared.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.is_some() && self.sum_close_pct.is_some() && self.nulls_f001.is_some()
    }

    /// How this differs from what the server says is in the table. Sums depend on the order of
    /// adding in their last digits only.
    pub(crate) fn mismatch(&self, truth: &Content) -> Option<String> {
        let same_sum = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let differs = (self.rows, truth.rows).both(|a, b| a != b)
            || (self.nulls_f001, truth.nulls_f001).both(|a, b| a != b)
            || (self.sum_close_pct, truth.sum_close_pct).both(|a, b| !same_sum(a, b));
        differs.then(|| format!("gave {self}, the table has {truth}"))
    }
}

trait Both<T> {
    /// Whether both are known and `test` holds for them.
    fn both(self, test: impl FnOnce(T, T) -> bool) -> bool;
}

impl<T> Both<T> for (Option<T>, Option<T>) {
    fn both(self, test: impl FnOnce(T, T) -> bool) -> bool {
        self.0.zip(self.1).is_some_and(|(a, b)| test(a, b))
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let rows = known(self.rows.map(|rows| rows.to_string()));
        let sum = known(self.sum_close_pct.map(|sum| sum.to_string()));
        let nulls = known(self.nulls_f001.map(|nulls| nulls.to_string()));
        write!(f, "rows {rows}, sum of close_pct {sum}, NULLs in f001 {nulls}")
    }
}
