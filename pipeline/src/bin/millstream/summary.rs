//! The closing table of a run, at most 80 columns wide.

use crate::judgement;
use millstream::{Figures, Metrics, Predicted, Report, StageReport, grouped};
use millstream_data::TargetKind;
use std::fmt::Write;

/// Lines of figures by target and step; the rest is in `report.json`.
const MOST_STEPS: usize = 12;

/// What a person wants to know at the end.
pub(crate) fn table(report: &Report) -> String {
    let mut out = String::new();
    figures(&mut out, report);
    line(&mut out, "");
    line(
        &mut out,
        &format!(
            "{:<12}{:>12}{:>10}{:>12}{:>12}",
            "stage", "rows/s", "busy s", "wait in s", "wait out s"
        ),
    );
    for stage in &report.stages {
        line(&mut out, &stage_line(stage));
    }
    line(&mut out, "rows/s: rows of the table for the loader, windows for the others");
    line(&mut out, "");
    line(
        &mut out,
        &format!(
            "the trainer waited for data {:.1} % of its time, at {} windows/s",
            100.0 * report.wait_share,
            grouped(report.samples_per_s as u64)
        ),
    );
    line(
        &mut out,
        &format!(
            "{} steps in {:.0} s, at most {:.0} MB of memory",
            grouped(report.steps),
            report.seconds,
            report.peak_rss_mb
        ),
    );
    if report.skipped > 0 {
        let skipped = grouped(report.skipped);
        line(
            &mut out,
            &format!("{skipped} of the steps were skipped: gradients that are not finite"),
        );
    }
    if let Some(text) = report.predict.as_ref().and_then(Predicted::line) {
        line(&mut out, &text);
    }
    for warning in &report.warnings {
        line(&mut out, &format!("warning: {warning}"));
    }
    if report.run.as_os_str().is_empty() {
        line(&mut out, "this was only tried out: nothing was kept");
    } else {
        line(&mut out, &format!("everything is in {}", report.run.display()));
    }
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
}

/// The figures of all steps and targets together, then of each.
fn figures(out: &mut String, report: &Report) {
    line(out, "");
    line(out, &format!("{:<22}{:>18}{:>18}", "", "in scaled units", "in user units"));
    line(out, &row("", ["mse", "mae", "mse", "mae", "ic", "rank ic", "sign"].map(str::to_owned)));
    let mut all = |name: &str, metrics: Option<&Metrics>| {
        if let Some(metrics) = metrics {
            line(out, &metrics_row(name, metrics));
        }
    };
    let overall = |figures: Option<&'_ Figures>| figures.map(|figures| figures.overall);
    all("validation before", report.first_validation.as_ref());
    all("validation after", overall(report.validation.as_ref()).as_ref());
    all("test", overall(report.test.as_ref()).as_ref());
    all("test, predict the mean", overall(report.baseline.mean.as_ref()).as_ref());
    all("test, predict the last", overall(report.baseline.last.as_ref()).as_ref());
    all("test, a season before", overall(report.baseline.season.as_ref()).as_ref());
    all("test, ridge", overall(report.baseline.ridge.as_ref()).as_ref());
    by_step(out, report);
    line(out, "");
    for text in judgement::lines(report) {
        line(out, &text);
    }
    line(out, "ic: correlation across series at a time, averaged over times, steps, targets");
    line(out, sign_note(report.target_kind));
    if report.baseline.ridge.is_some() {
        line(out, "ridge: regression on the window's last row, fitted on the training windows");
    }
    if let (Some(epoch), Some(best)) = (report.stopped_after, report.best_epoch) {
        line(out, &format!("stopped after epoch {epoch}: no improvement since epoch {best}"));
    }
    if let Some(epoch) = report.best_epoch {
        line(out, &format!("after training: the weights of epoch {epoch}, which validated best"));
    }
}

/// What the last column counts.
pub(crate) fn sign_note(kind: TargetKind) -> &'static str {
    match kind {
        TargetKind::Value => {
            "sign: share on the right side of the last known value; no change has no side"
        }
        TargetKind::Difference => {
            "sign: share with the sign of the change that came; no change has no sign"
        }
        TargetKind::Return | TargetKind::Direction => {
            "sign: share with the sign of the outcome; no change has no sign"
        }
    }
}

/// Each step of each target by itself, where there is more than one.
fn by_step(out: &mut String, report: &Report) {
    let parts = [("test", &report.test), ("validation", &report.validation)];
    let Some((part, figures)) = parts.into_iter().find_map(|(part, f)| Some((part, f.as_ref()?)))
    else {
        return;
    };
    if figures.by_step.len() < 2 {
        return;
    }
    line(out, "");
    line(out, &format!("{part}, by target and step"));
    for step in figures.by_step.iter().take(MOST_STEPS) {
        let ahead = format!(" +{}", step.step);
        let name: String = step.target.chars().take(21 - ahead.len()).collect();
        line(out, &metrics_row(&(name + &ahead), &step.metrics));
    }
    if let Some(more @ 1..) = figures.by_step.len().checked_sub(MOST_STEPS) {
        line(out, &format!("… and {} more, all in report.json", grouped(more as u64)));
    }
}

fn metrics_row(name: &str, metrics: &Metrics) -> String {
    let Metrics { mse, mae, directional_accuracy, ic, rank_ic, mse_raw, mae_raw, .. } = *metrics;
    let [mse, mae, mse_raw, mae_raw] = [mse, mae, mse_raw, mae_raw].map(error);
    let [ic, rank_ic, sign] = [ic, rank_ic, directional_accuracy].map(share);
    row(name, [mse, mae, mse_raw, mae_raw, ic, rank_ic, sign])
}

fn row(name: &str, [a, b, c, d, e, f, g]: [String; 7]) -> String {
    format!("{name:<22}{a:>9}{b:>9}{c:>9}{d:>9}{e:>7}{f:>8}{g:>7}")
}

/// At most eight characters, four digits after the point where they have room.
pub(crate) fn error(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        0.0 => "0.0000".to_owned(),
        small if small < 0.001 => format!("{value:.2e}"),
        size if size < 999.999 => format!("{value:.4}"),
        size if size < 99_999.9 => format!("{value:.2}"),
        size if size < 1e7 => format!("{value:.0}"),
        _ => format!("{value:.2e}"),
    }
}

pub(crate) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn stage_line(stage: &StageReport) -> String {
    let rate = if stage.busy_s > 0.0 { stage.rows as f64 / stage.busy_s } else { 0.0 };
    // A ring that only hands slots on is busy for microseconds; a rate would mean nothing.
    let rate = if stage.busy_s < 0.01 { "-".to_owned() } else { grouped(rate as u64) };
    format!(
        "{:<12}{rate:>12}{:>10.2}{:>12.2}{:>12.2}",
        stage.name, stage.busy_s, stage.wait_in_s, stage.wait_out_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{Baseline, StepMetrics};

    fn metrics(size: f64) -> Metrics {
        Metrics {
            mse: Some(0.5531),
            mae: Some(0.595),
            directional_accuracy: Some(0.7283),
            ic: Some(-0.6341),
            rank_ic: Some(0.5),
            mse_raw: Some(size * size),
            mae_raw: Some(size),
            ..Metrics::default()
        }
    }

    fn figures(size: f64, targets: &[&str], horizon: usize) -> Figures {
        let step = |target: &str, step| StepMetrics {
            target: target.to_owned(),
            step,
            metrics: metrics(size),
            ..StepMetrics::default()
        };
        let steps = targets.iter().flat_map(|target| (1..=horizon).map(move |n| step(target, n)));
        Figures { overall: metrics(size), by_step: steps.collect(), ..Figures::default() }
    }

    fn printed(test: &Figures, kind: TargetKind) -> String {
        let last = Metrics { directional_accuracy: None, ic: None, ..metrics(1.0) };
        let last = Some(Figures { overall: last, ..Figures::default() });
        let mut report = Report::default();
        (report.run, report.steps, report.best_epoch) = ("runs/r".into(), 1_234, Some(1));
        (report.target_kind, report.test) = (kind, Some(test.clone()));
        let naive = || Some(Figures { overall: metrics(9e6), ..Figures::default() });
        report.baseline = Baseline { mean: None, last, season: naive(), ridge: naive() };
        table(&report)
    }

    #[test]
    fn units_and_all_figures_are_named_in_80_columns() {
        for size in [0.0, 1e-9, 0.01, 31.622_776, 999.999_99, 12_345.6, 99_999.999, 9e6, 1e12] {
            let text = printed(&figures(size, &["y"], 1), TargetKind::Value);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= 80, "{widest} columns:\n{text}");
            // A number that fills its column would run into its neighbour.
            let test = text.lines().find(|line| line.starts_with("test ")).unwrap();
            assert_eq!(test.split_whitespace().count(), 1 + 7, "{test}");
        }
        let text = printed(&figures(20.0, &["y"], 1), TargetKind::Value);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
            "in scaled units in user units"
        );
        let names: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(names, ["mse", "mae", "mse", "mae", "ic", "rank", "ic", "sign"]);
        let test: Vec<&str> = lines[3].split_whitespace().collect();
        let expected =
            ["test", "0.5531", "0.5950", "400.0000", "20.0000", "-0.634", "0.500", "0.728"];
        assert_eq!(test, expected);
        for (line, name) in [(5, "test, a season before "), (6, "test, ridge ")] {
            assert!(lines[line].starts_with(name), "{}", lines[line]);
        }
        assert!(text.contains("ridge: regression on the window's last row"), "{text}");
        assert!(lines[4].ends_with(" -"), "no direction is shown as -: {}", lines[4]);
        assert!(!text.contains("by target and step"), "one step of one target is the whole");
    }

    #[test]
    fn what_the_sign_is_of_is_said() {
        let value = printed(&figures(1.0, &["y"], 1), TargetKind::Value);
        assert!(
            value.contains("right side of the last known value; no change has no side"),
            "{value}"
        );
        let change = printed(&figures(1.0, &["y"], 1), TargetKind::Return);
        assert!(change.contains("the sign of the outcome; no change has no sign"), "{change}");
    }

    #[test]
    fn steps_and_targets_are_listed_up_to_a_bound() {
        let names = ["y", "a target with a name much longer than its column"];
        let some = printed(&figures(1.0, &names, 2), TargetKind::Value);
        assert!(some.contains("test, by target and step"), "{some}");
        for start in ["y +1 ", "y +2 ", "a target with a na +1 "] {
            assert!(some.lines().any(|line| line.starts_with(start)), "{start}: {some}");
        }
        assert!(!some.contains("report.json"), "{some}");
        let many = printed(&figures(1.0, &["y"], 30), TargetKind::Value);
        assert!(many.contains("y +12 ") && !many.contains("y +13 "), "{many}");
        assert!(many.contains("… and 18 more, all in report.json"), "{many}");
    }
}
