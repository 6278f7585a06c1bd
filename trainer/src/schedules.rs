//! The learning rate of each step: a pure function of the step and of the validation losses so far,
//! which every checkpoint has, so a resume needs no other state. The schedules there are: one line each,
//! and a file.

use crate::{
    error::TrainError,
    listed::listed,
    report::EpochLoss,
    settings::{TrainSettings, require},
};
use millstream_data::Plan;

/// How the learning rate changes over the steps.
pub(crate) trait ShareOfRate {
    /// The share of the full rate at a moment.
    fn share(&self, at: Moment, settings: &TrainSettings) -> f64;

    /// The keys of `[train]` that it reads and others need not; beside one that does not, they are
    /// refused.
    fn reads(&self) -> &'static [&'static str] {
        &[]
    }

    /// Refuses what it reads where that is out of range.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    fn check(&self, settings: &TrainSettings) -> Result<(), TrainError> {
        let _ = settings;
        Ok(())
    }

    /// How often the validation losses of the epochs so far have lowered the rate; `None` where it does
    /// not look at them.
    fn reductions(&self, losses: &[f64], settings: &TrainSettings) -> Option<u32> {
        let _ = (losses, settings);
        None
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Steps since the warm-up.
    pub(crate) step: u64,
    /// Steps of the run, without the warm-up.
    pub(crate) steps: u64,
    /// Epochs that are over.
    pub(crate) epoch: u64,
    /// How often the validation losses have lowered the rate.
    pub(crate) reductions: u32,
}

listed! {
    /// How the learning rate changes over the steps.
    Schedule: ShareOfRate;
    cosine::Cosine, "Half a cosine wave from the full rate down to 0 over all steps.";
    constant::Constant, "The full rate throughout.";
    step::Step, "Lower by a factor every few epochs.";
    one_cycle::OneCycle, "Up to the full rate over a third of the steps, then down to nearly 0.";
    plateau::Plateau, "Lower by a factor when the validation loss no longer falls.";
}

impl Schedule {
    /// Whether this schedule reads a key of `[train]` that not every one has a use for.
    #[must_use]
    pub fn reads(self, key: &str) -> bool {
        self.listed().reads().contains(&key)
    }

    /// Refuses a stream that it cannot be used with.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    pub(crate) fn check_stream(
        self,
        settings: &TrainSettings,
        plan: &Plan,
        steps_total: u64,
    ) -> Result<(), TrainError> {
        let judged =
            plan.windows.validation > 0 || self.listed().reductions(&[], settings).is_none();
        let name = serde_json::to_string(&self).expect("a name always serialises");
        let expected = "another where there are no validation windows (split.validation)";
        require("train.schedule", &name, judged, expected)?;
        let warmup = settings.warmup;
        let expected = format!("below {steps_total}, the steps of this run");
        require("train.warmup", &warmup, warmup < steps_total, &expected)
    }
}

/// The learning rates of a run.
#[derive(Debug)]
pub(crate) struct Rates {
    settings: TrainSettings,
    steps_per_epoch: u64,
    /// Steps of the whole run.
    pub(crate) steps_total: u64,
    reductions: u32,
}

impl Rates {
    pub(crate) fn new(settings: &TrainSettings, steps_per_epoch: u64, steps_total: u64) -> Self {
        Rates { settings: settings.clone(), steps_per_epoch, steps_total, reductions: 0 }
    }

    /// Takes note of the losses of all epochs so far.
    pub(crate) fn note(&mut self, losses: &[EpochLoss]) {
        let losses: Vec<f64> = losses.iter().filter_map(|epoch| epoch.validation_loss).collect();
        let schedule = self.settings.schedule.listed();
        self.reductions = schedule.reductions(&losses, &self.settings).unwrap_or_default();
    }

    /// The learning rate of step `step`, from 0.
    pub(crate) fn rate(&self, step: u64) -> f64 {
        let TrainSettings { schedule, learning_rate, warmup, .. } = self.settings;
        let moment = Moment {
            step: step.saturating_sub(warmup),
            steps: self.steps_total.saturating_sub(warmup),
            epoch: step / self.steps_per_epoch.max(1),
            reductions: self.reductions,
        };
        let share = schedule.listed().share(moment, &self.settings);
        // From 0, which would be a step for nothing, at the step before the first.
        let warm = if step < warmup { (step + 1) as f64 / (warmup + 1) as f64 } else { 1.0 };
        learning_rate * warm * share
    }
}

/// Below 1, so that it does something, and above 0, so that something is left to learn with.
fn check_factor(settings: &TrainSettings) -> Result<(), TrainError> {
    let factor = settings.rate_factor;
    let lowers = factor > 0.0 && factor < 1.0;
    require("train.rate_factor", &factor, lowers, "a number above 0 and below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(schedule: Schedule, warmup: u64) -> TrainSettings {
        TrainSettings { schedule, warmup, learning_rate: 0.1, ..TrainSettings::default() }
    }

    #[test]
    fn every_schedule_warms_up_and_then_runs_over_what_is_left() {
        for &schedule in Schedule::ALL {
            let whole = Rates::new(&settings(schedule, 0), 1000, 96);
            let warm = Rates::new(&settings(schedule, 4), 1000, 100);
            for step in 0..96 {
                assert_eq!(warm.rate(step + 4), whole.rate(step), "{schedule:?} at {step}");
            }
            for step in 0..4 {
                let expected = whole.rate(0) * (step + 1) as f64 / 5.0;
                let found = warm.rate(step);
                assert!((found - expected).abs() < 1e-15, "{schedule:?} at {step}: {found}");
            }
        }
    }

    #[test]
    fn a_warm_up_that_never_ends_and_a_plateau_that_nobody_sees_are_refused() {
        let plan = |validation| crate::sample::plan(1, [18, validation, 0]);
        let check = |schedule, warmup, validation, expected: Option<&str>| {
            let settings = settings(schedule, warmup);
            let found = schedule.check_stream(&settings, &plan(validation), 5).err();
            assert_eq!(found.map(|error| error.to_string()).as_deref(), expected);
        };
        let below = "train.warmup is 5, but must be below 5, the steps of this run";
        check(Schedule::Cosine, 4, 0, None);
        check(Schedule::Cosine, 5, 0, Some(below));
        check(Schedule::Plateau, 0, 4, None);
        let unseen = "train.schedule is \"plateau\", but must be another where there are no \
                      validation windows (split.validation)";
        check(Schedule::Plateau, 0, 0, Some(unseen));
    }
}
