//! The learning rate of each step: a pure function of the step, so a resume needs no state. The
//! schedules there are: one line each, and a file.

use crate::listed::listed;

/// How the learning rate changes over the steps.
pub(crate) trait RateOfStep {
    /// The learning rate of step `step` (from 0) of `steps`.
    fn rate(&self, full: f64, step: u64, steps: u64) -> f64;
}

listed! {
    /// How the learning rate changes over the steps.
    Schedule: RateOfStep;
    cosine::Cosine, "Half a cosine wave from the full rate down to 0 over all steps.";
    constant::Constant, "The full rate throughout.";
}
