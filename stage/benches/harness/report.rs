//! The report: cases beside their floors or peers, in the form of `bench-stages`.

use super::{
    Failure,
    rounds::{self, Figures, Method, Outcome},
};
use serde::Serialize;
use std::{fmt::Write as _, fs::File};

/// What is written for programs.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) cases: Vec<Case>,
    pub(crate) skipped: Vec<Skipped>,
}

/// One quantity of one method beside that of its floor, or of a peer.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    pub(crate) stage: &'static str,
    pub(crate) case: String,
    pub(crate) unit: &'static str,
    /// Medians; the best of all rounds follow.
    pub(crate) value: f64,
    pub(crate) floor: f64,
    pub(crate) value_best: Option<f64>,
    pub(crate) floor_best: Option<f64>,
    pub(crate) floor_name: String,
    /// The median of the rounds' ratios, which need not be that of the medians.
    pub(crate) ratio: f64,
    pub(crate) cpu_s: Option<f64>,
    pub(crate) peak_rss_mb: Option<f64>,
}

/// Something that could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    pub(crate) stage: &'static str,
    pub(crate) case: String,
    pub(crate) reason: String,
}

/// What is compared: a quantity of both sides, as so many units of work in its time.
pub(crate) struct Comparison<'a, M, C> {
    pub(crate) stage: &'static str,
    pub(crate) ours: &'a Outcome<M, C>,
    pub(crate) other: &'a Outcome<M, C>,
    pub(crate) other_name: &'a str,
    pub(crate) amount: f64,
}

impl<M: Method, C> Comparison<'_, M, C> {
    /// The case of this name; `None` when one side was not measured.
    pub(crate) fn case(
        &self,
        name: String,
        unit: &'static str,
        figures: fn(&Outcome<M, C>) -> Option<Figures>,
    ) -> Option<Case> {
        let (own, others) = (figures(self.ours)?, figures(self.other)?);
        Some(Case {
            stage: self.stage,
            case: name,
            unit,
            value: self.amount / own.median,
            floor: self.amount / others.median,
            value_best: Some(self.amount / own.best),
            floor_best: Some(self.amount / others.best),
            floor_name: self.other_name.to_owned(),
            ratio: own.ratio_of(&others),
            cpu_s: self.ours.cpu_s().map(|cpu| cpu.median),
            peak_rss_mb: self.ours.peak_rss_mb().map(|mb| mb.median),
        })
    }
}

impl Report {
    /// Prints all figures, and writes the cases for programs where somebody wants them.
    pub(crate) fn publish<M: Method, C>(
        &self,
        outcomes: &[Outcome<M, C>],
        json: Option<File>,
    ) -> Result<(), Failure> {
        eprint!("\n{}\n{}", rounds::table(outcomes), self.table());
        match json {
            Some(file) => Ok(serde_json::to_writer_pretty(file, self)?),
            None => Ok(()),
        }
    }

    /// The ratios, for people.
    fn table(&self) -> String {
        let mut text = String::new();
        for Case { case, floor_name, ratio, value_best, floor_best, .. } in &self.cases {
            let best = value_best.zip(*floor_best).map(|(own, other)| own / other);
            let best = best.map_or(String::new(), |best| format!(" (best {best:.2})"));
            writeln!(text, "{case:40} {ratio:5.2}{best} of {floor_name}")
                .expect("a String takes every write");
        }
        for Skipped { case, reason, .. } in &self.skipped {
            writeln!(text, "{case:40} SKIPPED: {reason}").expect("a String takes every write");
        }
        text
    }
}
