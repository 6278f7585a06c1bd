//! What the closing table says in words: quantiles, scores, and who forecasts the test part better than
//! the model.

use millstream::{Baseline, Figures, Metrics, Report};

/// Lines of at most 80 columns.
pub(crate) fn lines(report: &Report) -> Vec<String> {
    let parts = [("test", &report.test), ("validation", &report.validation)];
    let judged = parts.into_iter().find_map(|(part, figures)| Some((part, figures.as_ref()?)));
    let mut lines = Vec::new();
    if let Some((part, figures)) = judged {
        lines.extend(quantiles(part, figures));
        if figures.overall.mse.is_none() && figures.overall.ic.is_some() {
            lines.push(
                "the model gives scores, which have no unit: no errors and no sign".to_owned(),
            );
        }
    }
    lines.extend(untrained(report));
    lines.extend(report.test.as_ref().and_then(|test| beaten(&test.overall, &report.baseline)));
    lines
}

/// How good the quantiles are, where there are any.
fn quantiles(part: &str, figures: &Figures) -> Vec<String> {
    let Metrics { pinball, pinball_raw, coverage, .. } = figures.overall;
    let (Some(pinball), Some(raw)) = (pinball, pinball_raw) else { return Vec::new() };
    let mut lines =
        vec![format!("{part} quantiles: pinball loss {pinball:.4}, in user units {raw:.4e}")];
    let ends = figures.quantiles.first().zip(figures.quantiles.last());
    if let (Some(coverage), Some((low, high))) = (coverage, ends) {
        let (low, high) = (low.quantile, high.quantile);
        let (found, meant) = (100.0 * coverage, 100.0 * (high - low));
        lines.push(format!(
            "{part} quantiles: {found:.1} % of outcomes from {low} to {high}, {meant:.1} % expected"
        ));
    }
    lines
}

/// That no epoch has made anything better.
fn untrained(report: &Report) -> Option<String> {
    let losses = report.losses.iter().filter_map(|epoch| epoch.validation_loss);
    let (before, best) = (report.first_validation_loss?, losses.reduce(f64::min)?);
    (before < best).then(|| {
        format!("no epoch validated better than no training: loss {before:.4}, then {best:.4}")
    })
}

/// What forecasts are compared by.
struct By {
    figure: &'static str,
    of: fn(&Metrics) -> Option<f64>,
    /// Whether the first of two is the better one.
    better: fn(f64, f64) -> bool,
}

impl By {
    const ERROR: By = By { figure: "mse", of: |metrics| metrics.mse, better: |a, b| a < b };
    const ORDER: By = By { figure: "ic", of: |metrics| metrics.ic, better: |a, b| a > b };
}

/// Which naive forecast is the best of those that are better than the model: by the squared error, or
/// where the model gives scores by the correlation.
fn beaten(model: &Metrics, baseline: &Baseline) -> Option<String> {
    let Baseline { mean, last, season, ridge } = baseline;
    let named = [
        ("the mean", mean),
        ("the last value", last),
        ("a season before", season),
        ("ridge", ridge),
    ];
    let all =
        named.into_iter().filter_map(|(name, figures)| Some((name, figures.as_ref()?.overall)));
    let By { figure, of, better } = if model.mse.is_some() { By::ERROR } else { By::ORDER };
    let ours = of(model)?;
    let known = all.filter_map(|(name, metrics)| Some((name, of(&metrics)?)));
    let best = known.reduce(|best, next| if better(next.1, best.1) { next } else { best });
    let (name, theirs) = best.filter(|(_, theirs)| better(*theirs, ours))?;
    Some(format!("in the test, {name} beats the model: {figure} {theirs:.4} beside {ours:.4}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::{EpochLoss, QuantileMetrics};

    fn figures(mse: Option<f64>, ic: f64) -> Option<Figures> {
        let overall = Metrics { mse, ic: Some(ic), ..Metrics::default() };
        Some(Figures { overall, ..Figures::default() })
    }

    fn said(test: Option<Figures>, change: impl FnOnce(&mut Baseline)) -> Vec<String> {
        let mut report = Report::default();
        change(&mut report.baseline);
        report.test = test;
        let lines = lines(&report);
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
        lines
    }

    #[test]
    fn the_best_of_those_that_beat_the_model_is_named() {
        let none: [String; 0] = [];
        let model = || figures(Some(0.5), 0.1);
        assert_eq!(said(model(), |_| {}), none);
        assert_eq!(said(model(), |naive| naive.mean = figures(Some(0.5), 0.9)), none);
        let found = said(model(), |naive| {
            naive.last = figures(Some(0.4), 0.0);
            naive.ridge = figures(Some(0.25), 0.0);
            naive.season = figures(Some(0.3), 0.0);
        });
        let expected = "in the test, ridge beats the model: mse 0.2500 beside 0.5000";
        assert_eq!(found, [expected]);
        let found = said(model(), |naive| naive.season = figures(Some(0.25), 0.0));
        assert!(found[0].starts_with("in the test, a season before beats"), "{found:?}");
    }

    #[test]
    fn training_that_did_no_good_is_said() {
        let check = |before: f64, expected: &[&str]| {
            let mut report = Report::default();
            report.first_validation_loss = Some(before);
            report.losses = [0.5, 0.25, 0.75]
                .map(|loss| EpochLoss { epoch: 1, train_loss: 0.5, validation_loss: Some(loss) })
                .to_vec();
            assert_eq!(lines(&report), expected);
        };
        check(0.5, &[]);
        let expected = "no epoch validated better than no training: loss 0.1250, then 0.2500";
        check(0.125, &[expected]);
    }

    #[test]
    fn scores_are_compared_by_their_order() {
        let scores = || figures(None, 0.1);
        let note = "the model gives scores, which have no unit: no errors and no sign";
        assert_eq!(said(scores(), |naive| naive.ridge = figures(Some(0.1), 0.05)), [note]);
        let found = said(scores(), |naive| naive.ridge = figures(Some(9.9), 0.2));
        let expected = "in the test, ridge beats the model: ic 0.2000 beside 0.1000";
        assert_eq!(found, [note, expected]);
    }

    #[test]
    fn quantiles_say_how_often_they_hold() {
        let mut test = figures(Some(0.5), 0.1).unwrap();
        let metrics = |quantile| QuantileMetrics { quantile, ..QuantileMetrics::default() };
        test.quantiles = [0.025, 0.5, 0.975].map(metrics).to_vec();
        (test.overall.pinball, test.overall.pinball_raw) = (Some(0.1234), Some(123_456_789.0));
        test.overall.coverage = Some(0.931);
        let expected = [
            "test quantiles: pinball loss 0.1234, in user units 1.2346e8",
            "test quantiles: 93.1 % of outcomes from 0.025 to 0.975, 95.0 % expected",
        ];
        assert_eq!(said(Some(test), |_| {}), expected);
    }
}
