//! The closing table of a backtest, at most 80 columns wide: where the folds lie, what each found, and
//! mean and standard deviation of all.

use crate::summary::{error, share, sign_note};
use millstream::{BacktestReport, Figures, FoldReport, Period, Refit, Spread, evaluate, grouped};
use std::{collections::BTreeMap, fmt::Write};

/// Of a time; what is longer is cut.
const TIME: usize = 16;

/// What a person wants to know at the end.
pub(crate) fn table(report: &BacktestReport) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
    };
    line("");
    line(&times(["fold", "learns from", "validated from", "tested from", "until"]));
    for fold in &report.folds {
        line(&periods(fold));
    }
    line("");
    line(&format!("{:<8}{:^42}{:>30}", "", "the model", "mse of naive forecasts"));
    line(&row(
        "fold",
        ["mse", "mae", "ic", "rank ic", "sign", "mean", "last", "ridge"].map(str::to_owned),
    ));
    for fold in &report.folds {
        line(&row(&fold.fold.to_string(), figures(fold)));
    }
    if report.folds.len() > 1 {
        line(&row("mean", spread(report, |spread| Some(spread.mean))));
        line(&row("± std", spread(report, |spread| spread.std)));
    }
    for text in in_user_units(report) {
        line(&text);
    }
    line("");
    line("test figures in scaled units, each fold by its own scale; all are in report.json");
    line("ic: correlation across series at a time, averaged over times, steps, targets");
    line(sign_note(report.target_kind));
    line(refit(report.refit));
    if report.interrupted {
        line(&format!("{} of {} folds are done", report.folds.len(), report.of));
    }
    let (training, seconds) = (report.training_seconds, report.seconds);
    line(&format!(
        "{seconds:.0} s, of which the folds trained {training:.0} s, at most {:.0} MB of memory",
        report.peak_rss_mb
    ));
    if let Some(output) = &report.output {
        let (rows, series) = (grouped(report.rows), grouped(report.series));
        line(&format!("{rows} forecasts of {series} series in {}", output.display()));
    }
    for warning in &report.warnings {
        line(&format!("warning: {warning}"));
    }
    line(&format!("everything is in {}", report.run.display()));
    out
}

fn times([fold, train, validation, test, until]: [&str; 5]) -> String {
    let cut = |text: &str| text.chars().take(TIME).collect::<String>();
    let [train, validation, test, until] = [train, validation, test, until].map(cut);
    format!("{fold:<8}{train:<18}{validation:<18}{test:<18}{until}")
}

fn periods(fold: &FoldReport) -> String {
    let Period { from: test, until, .. } = &fold.test_period;
    let validation = fold.validation.as_ref().map_or("-", |period| period.from.as_str());
    let until = until.as_deref().unwrap_or("the end");
    times([&fold.fold.to_string(), &fold.train.from, validation, test, until])
}

/// The mean squared error of naive forecasts, where they were made.
fn naive(figures: Option<&Figures>) -> String {
    error(figures.and_then(|figures| figures.overall.mse))
}

fn figures(fold: &FoldReport) -> [String; 8] {
    let of = fold.test.as_ref().map(|figures| figures.overall).unwrap_or_default();
    let base = &fold.baseline;
    let [mse, mae] = [of.mse, of.mae].map(error);
    let [ic, rank_ic, sign] = [of.ic, of.rank_ic, of.directional_accuracy].map(share);
    let [mean, last, ridge] = [&base.mean, &base.last, &base.ridge].map(|f| naive(f.as_ref()));
    [mse, mae, ic, rank_ic, sign, mean, last, ridge]
}

/// The same of all folds together.
fn spread(report: &BacktestReport, of: fn(&Spread) -> Option<f64>) -> [String; 8] {
    let get = |figures: &BTreeMap<String, Spread>, name: &str| figures.get(name).and_then(of);
    let [mse, mae] = ["mse", "mae"].map(|name| error(get(&report.test, name)));
    let [ic, rank_ic, sign] =
        ["ic", "rank_ic", "directional_accuracy"].map(|name| share(get(&report.test, name)));
    let [mean, last, ridge] = ["mean", "last", "ridge"]
        .map(|name| error(report.baseline.get(name).and_then(|figures| get(figures, "mse"))));
    [mse, mae, ic, rank_ic, sign, mean, last, ridge]
}

fn row(name: &str, [mse, mae, ic, rank_ic, sign, mean, last, ridge]: [String; 8]) -> String {
    format!("{name:<8}{mse:>9}{mae:>9}{ic:>8}{rank_ic:>9}{sign:>7}{mean:>10}{last:>10}{ridge:>10}")
}

/// What the table of all forecasts comes to; by fold where the folds have no figures of their own.
fn in_user_units(report: &BacktestReport) -> Vec<String> {
    let Some(found) = &report.evaluation else { return Vec::new() };
    let figures = |name: &str, of: &evaluate::Figures| {
        let [mse, mae] = [of.mse, of.mae].map(error);
        let [ic, rank_ic, sign] = [of.ic, of.rank_ic, of.directional_accuracy].map(share);
        let text = format!("{name:<8}{mse:>9}{mae:>9}{ic:>8}{rank_ic:>9}{sign:>7}");
        text.trim_end().to_owned()
    };
    let mut lines = vec![String::new(), "all forecasts, in user units".to_owned()];
    let folds = found.groups(evaluate::Grouping::Fold).filter(|_| report.refit == Refit::Once);
    let folds = folds.unwrap_or_default().iter();
    lines.extend(folds.map(|fold| figures(&fold.group, &fold.figures)));
    lines.push(figures("all", &found.overall));
    if let Some(over) = &found.folds {
        lines.extend([figures("mean", &over.mean), figures("± std", &over.std)]);
    }
    lines
}

fn refit(refit: Refit) -> &'static str {
    match refit {
        Refit::Once => {
            "the model of fold 1 forecasts the test parts of all folds, with its own scale"
        }
        Refit::WarmStart => "each fold trained on from the best weights of the one before",
        _ => "each fold trained a model of its own",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::Metrics;

    #[test]
    fn folds_mean_and_spread_are_in_80_columns() {
        let fold = |fold: usize, mse: f64| {
            let overall = Metrics { mse: Some(mse), ic: Some(-0.5), ..Metrics::default() };
            let mut report = FoldReport::default();
            (report.fold, report.test) = (fold, Some(Figures { overall, ..Figures::default() }));
            report.train.from = "2015-01-05 09:30:00.250".to_owned();
            report.test_period.from = "2017-01-02".to_owned();
            report.baseline.last = Some(Figures { overall, ..Figures::default() });
            report
        };
        let mut report = BacktestReport::default();
        report.folds = vec![fold(1, 0.5), fold(100, 123_456_789.0)];
        report.test = BTreeMap::from([("mse".to_owned(), Spread::of(&[0.5, 0.7]).unwrap())]);
        let text = table(&report);
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{widest} columns:\n{text}");
        let words = |start: &str, nth: usize| {
            let line = text.lines().filter(|line| line.starts_with(start)).nth(nth).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("1 ", 0), "1 2015-01-05 09:30 - 2017-01-02 the end");
        assert_eq!(words("1 ", 1), "1 0.5000 - -0.500 - - - 0.5000 -");
        assert_eq!(words("100 ", 1), "100 1.23e8 - -0.500 - - - 1.23e8 -");
        assert_eq!(words("mean ", 0), "mean 0.6000 - - - - - - -");
        assert_eq!(words("± std ", 0), "± std 0.1414 - - - - - - -");
    }
}
