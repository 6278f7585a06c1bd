//! The cases of a report: a reader's figures beside those of its floor, in the form of
//! `bench-stages`.

use crate::{
    content::Content,
    harness::{
        report::{Case, Comparison, Skipped},
        rounds::{self, Method as _},
    },
    method::{Method, Reader, TWO},
    workload::BenchTable,
};
use std::num::NonZeroUsize;

/// What became of a method.
pub(crate) type Outcome = rounds::Outcome<Method, Content>;

const STAGE: &str = "loader";
const ONE: NonZeroUsize = NonZeroUsize::MIN;

/// Suffix of the case's name, the reader, its floor.
const COMPARISONS: [(&str, Method, Method); 6] = [
    ("", Method::sorted(Reader::Panel), Method::sorted(Reader::Drain)),
    ("-psql", Method::sorted(Reader::Panel), Method::sorted(Reader::Psql)),
    (
        "-shuffled",
        Method::new(Reader::Panel, BenchTable::Shuffled, TWO),
        Method::new(Reader::Drain, BenchTable::Shuffled, TWO),
    ),
    (
        "-one-connection",
        Method::new(Reader::Panel, BenchTable::Sorted, ONE),
        Method::new(Reader::Drain, BenchTable::Sorted, ONE),
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
        cases.extend(load(suffix, ours, floor, name.strip_prefix("floor: ").unwrap_or(&name)));
        // A psql keeps nothing that memory could be compared with.
        if floor.method.reader != Reader::Psql {
            cases.extend(memory(suffix, ours));
        }
    }
    cases
}

/// Time and CPU of a reader beside those of another one, as rows per second of each.
pub(crate) fn load(suffix: &str, ours: &Outcome, other: &Outcome, name: &str) -> Vec<Case> {
    let rows = ours.samples.first().and_then(|sample| sample.content.rows).unwrap_or(0) as f64;
    let both = Comparison { stage: STAGE, ours, other, other_name: name, amount: rows };
    let wall = both.case(format!("postgres{suffix}"), "rows/s", Outcome::wall_s);
    let cpu = both.case(format!("postgres-cpu{suffix}"), "rows/cpu-s", Outcome::cpu_s);
    wall.into_iter().chain(cpu).collect()
}

/// Time and CPU of an epoch's data beside those of another way to it, as batches per second.
pub(crate) fn epoch(
    suffix: &str,
    ours: &Outcome,
    other: &Outcome,
    name: &str,
    batches: u64,
) -> Vec<Case> {
    let amount = batches as f64;
    let both = Comparison { stage: STAGE, ours, other, other_name: name, amount };
    let wall = both.case(format!("postgres-epoch{suffix}"), "batches/s", Outcome::wall_s);
    let cpu = both.case(format!("postgres-epoch-cpu{suffix}"), "batches/cpu-s", Outcome::cpu_s);
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

/// Something that could not be measured.
pub(crate) fn skipped(case: impl Into<String>, reason: impl Into<String>) -> Skipped {
    Skipped { stage: STAGE, case: case.into(), reason: reason.into() }
}
