//! The closing table of a run.

use crate::{memory::peak_rss_mb, predict::Predicted, progress::grouped, train::Trained};
use millstream_stage::StageReport;
use millstream_trainer::Metrics;
use std::fmt::Write;

/// What a person wants to know at the end.
pub(crate) fn table(trained: &Trained, predicted: Option<&Predicted>, seconds: f64) -> String {
    let mut out = String::new();
    let report = &trained.report;
    let mut line = |text: String| writeln!(out, "{text}").expect("writing to a string cannot fail");

    line(String::new());
    line(format!("{:<24}{:>10}{:>10}{:>8}{:>8}", "", "mse", "mae", "ic", "sign"));
    if let Some(loss) = report.first_validation_loss {
        line(format!("{:<24}{loss:>10.4}", "validation before"));
    }
    let mut metrics = |name: &str, metrics: Option<&Metrics>| {
        if let Some(m) = metrics {
            let (ic, sign) = (short(m.ic), short(m.directional_accuracy));
            line(format!("{name:<24}{:>10}{:>10}{ic:>8}{sign:>8}", long(m.mse), long(m.mae)));
        }
    };
    metrics("validation after", report.validation.as_ref());
    metrics("test", report.test.as_ref());
    metrics("test, predict the mean", report.baseline.mean.as_ref());
    metrics("test, predict the last", report.baseline.last.as_ref());

    line(String::new());
    line(format!(
        "{:<12}{:>12}{:>10}{:>12}{:>12}",
        "stage", "rows/s", "busy s", "wait in s", "wait out s"
    ));
    for stage in trained.stages.iter().chain(predicted.iter().flat_map(|p| p.stages.last())) {
        line(stage_line(stage));
    }
    line(String::new());
    line(format!(
        "the trainer waited for data {:.1} % of its time, at {} windows/s",
        100.0 * trained.wait_share(),
        grouped(trained.samples_per_s() as u64)
    ));
    line(format!(
        "{} steps in {seconds:.0} s, at most {:.0} MB of memory",
        grouped(report.steps),
        peak_rss_mb()
    ));
    if let Some(Predicted { output: Some(output), rows, series, .. }) = predicted {
        let (rows, series) = (grouped(*rows), grouped(*series));
        line(format!("{rows} forecasts of {series} series in {}", output.display()));
    }
    line(format!("everything is in {}", trained.run.display()));
    out
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

fn long(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

fn short(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}
