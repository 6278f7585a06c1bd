//! What became of a claim: a row of the table.

use crate::topic::Topic;
use serde::Serialize;
use std::fmt;

/// Losses further apart than this share are not those of the same training.
const SAME_LOSS: f64 = 0.001;

/// What was measured, or why nothing was.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    pub(crate) measured: Option<f64>,
    /// The validation loss before and after, where something is trained.
    pub(crate) losses: Option<[f64; 2]>,
    /// What was compared with what, and what else it showed.
    pub(crate) how: String,
    /// Why there is no figure, or what keeps the figure from being the promised one.
    pub(crate) reason: Option<String>,
}

/// A row of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Claim {
    claim: &'static str,
    promised: &'static str,
    measured: Option<f64>,
    unit: &'static str,
    loss_before: Option<f64>,
    loss_after: Option<f64>,
    how: String,
    reason: Option<String>,
}

impl Claim {
    /// A figure of a training that learns something else is none.
    pub(crate) fn new(topic: Topic, finding: Finding) -> Self {
        let Finding { mut measured, losses, mut how, mut reason } = finding;
        if let Some([before, after]) = losses {
            let apart = (after / before - 1.0).abs();
            if apart <= SAME_LOSS {
                how += "; validation loss within 0.1 %";
            } else {
                measured = None;
                let percent = apart * 100.0;
                reason = Some(format!("the validation losses are {percent:.2} % apart"));
            }
        }
        Claim {
            claim: topic.claim(),
            promised: topic.promised(),
            measured,
            unit: topic.unit(),
            loss_before: losses.map(|[before, _]| before),
            loss_after: losses.map(|[_, after]| after),
            how,
            reason,
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { claim, promised, unit, how, .. } = self;
        write!(f, "{claim}: promised {promised}, ")?;
        match self.measured {
            Some(measured) => write!(f, "measured {measured:.2} {unit}")?,
            None => write!(f, "NO FIGURE")?,
        }
        if let Some((before, after)) = self.loss_before.zip(self.loss_after) {
            write!(f, ", loss {before:.6} and {after:.6}")?;
        }
        let remarks = [Some(how), self.reason.as_ref()].into_iter().flatten();
        let mut remarks = remarks.filter(|text| !text.is_empty());
        remarks.try_for_each(|text| write!(f, "\n    {text}"))
    }
}
