//! The cases of a report: a reader's figures beside those of its floor, in the form of
//! `bench-stages`.

use crate::{
    method::{Method, Reader, TWO},
    rounds::{Figures, Outcome},
    workload::Table,
};
use serde::Serialize;
use std::{fmt::Write as _, num::NonZeroUsize};

/// What is written for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) cases: Vec<Case>,
    pub(crate) skipped: Vec<Skipped>,
}

/// One quantity of one reader beside its floor.
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    stage: &'static str,
    case: String,
    unit: &'static str,
    /// Medians; the best of all rounds follow.
    value: f64,
    floor: f64,
    value_best: Option<f64>,
    floor_best: Option<f64>,
    floor_name: String,
    ratio: f64,
    cpu_s: Option<f64>,
    peak_rss_mb: Option<f64>,
}

/// Something that could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Skipped {
    stage: &'static str,
    case: String,
    reason: String,
}

const STAGE: &str = "loader";
const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Suffix of the case's name, the reader, its floor.
const COMPARISONS: [(&str, Method, Method); 6] = [
    ("", Method::sorted(Reader::Panel), Method::sorted(Reader::Drain)),
    ("-psql", Method::sorted(Reader::Panel), Method::sorted(Reader::Psql)),
    (
        "-shuffled",
        Method::new(Reader::Panel, Table::Shuffled, TWO),
        Method::new(Reader::Drain, Table::Shuffled, TWO),
    ),
    (
        "-one-connection",
        Method::new(Reader::Panel, Table::Sorted, ONE),
        Method::new(Reader::Drain, Table::Sorted, ONE),
    ),
    ("-batches-wide", Method::sorted(Reader::Wide), Method::sorted(Reader::Drain)),
    ("-batches-packed", Method::sorted(Reader::Packed), Method::sorted(Reader::Drain)),
];

/// Every method that some comparison needs, once.
pub(crate) fn methods() -> Vec<Method> {
    let mut methods = Vec::new();
    for method in COMPARISONS.iter().flat_map(|(_, ours, floor)| [*ours, *floor]) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

/// The cases of all comparisons whose both sides were measured.
pub(crate) fn compare(outcomes: &[Outcome]) -> Vec<Case> {
    let find = |method: &Method| outcomes.iter().find(|outcome| outcome.method == *method);
    let mut cases = Vec::new();
    for (suffix, ours, floor) in &COMPARISONS {
        let (Some(ours), Some(floor)) = (find(ours), find(floor)) else { continue };
        let name = floor.method.describe();
        cases.extend(pair(suffix, ours, floor, name.strip_prefix("floor: ").unwrap_or(&name)));
        // A psql keeps nothing that memory could be compared with.
        if floor.method.reader != Reader::Psql {
            cases.extend(memory(suffix, ours));
        }
    }
    cases
}

/// Time and CPU of a reader beside those of another one, as rows per second of each.
pub(crate) fn pair(suffix: &str, ours: &Outcome, other: &Outcome, name: &str) -> Vec<Case> {
    let rows = ours.samples.first().and_then(|sample| sample.content.rows).unwrap_or(0) as f64;
    let case = |kind: &str, unit, figures: fn(&Outcome) -> Option<Figures>| {
        let (own, others) = (figures(ours)?, figures(other)?);
        Some(Case {
            stage: STAGE,
            case: format!("postgres{kind}{suffix}"),
            unit,
            value: rows / own.median,
            floor: rows / others.median,
            value_best: Some(rows / own.best),
            floor_best: Some(rows / others.best),
            floor_name: name.to_owned(),
            ratio: others.median / own.median,
            cpu_s: ours.cpu_s().map(|cpu| cpu.median),
            peak_rss_mb: ours.peak_rss_mb().map(|mb| mb.median),
        })
    };
    let wall = case("", "rows/s", Outcome::wall_s);
    let cpu = case("-cpu", "rows/cpu-s", Outcome::cpu_s);
    wall.into_iter().chain(cpu).collect()
}

/// Peak memory beside the bytes of the panel, which is the least there can be.
fn memory(suffix: &str, ours: &Outcome) -> Option<Case> {
    let panel = ours.samples.first()?.bytes? as f64;
    let peak = ours.peak_rss_mb()?;
    Some(Case {
        stage: STAGE,
        case: format!("postgres-memory{suffix}"),
        unit: "bytes",
        value: peak.median * 1e6,
        floor: panel,
        value_best: Some(peak.best * 1e6),
        floor_best: None,
        floor_name: "the panel itself".to_owned(),
        ratio: panel / (peak.median * 1e6),
        cpu_s: ours.cpu_s().map(|cpu| cpu.median),
        peak_rss_mb: Some(peak.median),
    })
}

impl Skipped {
    pub(crate) fn new(case: impl Into<String>, reason: impl Into<String>) -> Self {
        Skipped { stage: STAGE, case: case.into(), reason: reason.into() }
    }
}

impl Report {
    /// The ratios, for people.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for Case { case, floor_name, ratio, .. } in &self.cases {
            writeln!(text, "{case:34} {ratio:5.2} of {floor_name}")
                .expect("a String takes every write");
        }
        for Skipped { case, reason, .. } in &self.skipped {
            writeln!(text, "{case:34} SKIPPED: {reason}").expect("a String takes every write");
        }
        text
    }
}
