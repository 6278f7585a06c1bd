//! What the performance section says: a pure function of the figures.

use std::fmt::Write as _;

use crate::bench_claims;
use crate::bench_stages::figures::{cell, rate};
use crate::bench_stages::report::{Against, Case, Report};

/// What the benches found; `None` for one that was not run.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) stages: Option<Report>,
    pub(super) peers: Option<Report>,
    pub(super) claims: Option<bench_claims::Report>,
}

/// The cases that stand for their stages; the others are a click away.
const HEADLINES: [&str; 9] = [
    "line/train",
    "trainer/steps",
    "predictor/forecasts",
    "prefetch/ring-simulated",
    "normalize/fill-shuffled",
    "normalize/fit-apply",
    "loader/postgres",
    "loader/postgres-cpu",
    "stage/hand-over",
];

/// The section in Markdown.
pub(super) fn render(figures: &Figures) -> String {
    let stages = figures.stages.as_ref().map_or_else(|| not_run("bench-stages"), stages);
    let peers = figures.peers.as_ref().map_or_else(|| not_run("bench-peers"), peers);
    let claims = figures.claims.as_ref().map(bench_claims::Report::markdown);
    let claims = claims.unwrap_or_else(|| not_run("bench-claims"));
    format!(
        "**Each stage beside its floor** (`make bench-stages`): the same bytes, the same access \
         pattern and the same threads, in a program without the stage.\n\n{stages}\n\
         **Beside what people use today** (`make bench-peers`): the same work in turns, results \
         checked to be the same.\n\n{peers}\n\
         **What optimisation guides promise** (`make bench-claims`): before and after.\n\n{claims}"
    )
}

fn not_run(task: &str) -> String {
    format!("No figures: `make {task}` has not been run for this section.\n")
}

fn stages(report: &Report) -> String {
    let mut text = format!(
        "{}\n\n| stage | case | ours | of its floor | floor is |\n|---|---|---:|---:|---|\n",
        report.origin(Against::Floors)
    );
    let find = |name: &&str| report.cases.iter().find(|case| case.name() == **name);
    for case in HEADLINES.iter().filter_map(find) {
        let Case { stage, case: name, floor_name, .. } = case;
        let (ours, floor) = (rate(case.value, &case.unit), cell(floor_name));
        let percent = case.ratio * 100.0;
        writeln!(text, "| {stage} | {name} | {ours} | {percent:.0} % | {floor} |")
            .expect("a String takes every write");
    }
    text + "\n" + &folded("All cases", &report.table(Against::Floors))
}

fn peers(report: &Report) -> String {
    let ahead = report.cases.iter().filter(|case| case.ratio > 1.0).count();
    let all = report.cases.len();
    let mut text = report.origin(Against::Peers);
    write!(text, " Ours takes less in {ahead} of {all} comparisons.")
        .expect("a String takes every write");
    if let Some(least) = report.cases.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
        let (name, ratio) = (least.name(), least.ratio);
        write!(text, " The lowest ratio is {ratio:.2} ({name}, {}).", least.floor_name)
            .expect("a String takes every write");
    }
    text + "\n\n" + &folded("All comparisons", &report.table(Against::Peers))
}

fn folded(summary: &str, table: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{table}\n</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_stages::report::tests::report;

    #[test]
    fn what_was_not_run_is_said_and_not_invented() {
        let text = render(&Figures::default());
        for task in ["bench-stages", "bench-peers", "bench-claims"] {
            let line = format!("No figures: `make {task}` has not been run for this section.\n");
            assert!(text.contains(&line), "{text}");
        }
        assert!(!text.contains('|'), "{text}");
    }

    #[test]
    fn every_case_is_in_a_table_and_the_chosen_ones_in_front() {
        let stages = Some(report(&[("fill-shuffled", 0.8), ("other", 0.5)]));
        let peers = Some(report(&[("beside-a", 2.0), ("beside-b", 0.9)]));
        let text = render(&Figures { stages, peers, claims: None });
        for line in [
            "Commit 0123abc, Some CPU, 2 cores, 8000 MB. Ratio: 1.00 is the floor",
            "| normalize | fill-shuffled | 8.00 GB/s | 80 % | memcpy |\n",
            "| normalize | other | 5.00 GB/s | 10.0 GB/s | memcpy | 0.50 | |\n",
            "Ours takes less in 1 of 2 comparisons. The lowest ratio is 0.90 \
             (normalize/beside-b, memcpy).",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("| normalize | other | 5.00 GB/s | 50 %"), "{text}");
    }
}
