//! What a person sees of an evaluation: tables of at most 80 columns, long ones cut short.

use millstream::{
    evaluate::{Deciles, Evaluation, Figures, Grouped, NaiveForecaster, OverFolds},
    grouped,
};
use std::fmt::Write;

/// Groups that are shown of each grouping; the rest is in `--json` and `--output`.
const MOST_GROUPS: usize = 12;

/// Columns of the name of a row.
const NAME: usize = 20;

/// A column of a table: its heading, and its figure.
type Column = (&'static str, fn(&Figures) -> Option<f64>);

const ERRORS: [Column; 6] = [
    ("mse", |figures| figures.mse),
    ("mae", |figures| figures.mae),
    ("rmse", |figures| figures.rmse),
    ("mape", |figures| figures.mape),
    ("smape", |figures| figures.smape),
    ("mase", |figures| figures.mase),
];

const ORDERS: [Column; 6] = [
    ("sign", |figures| figures.directional_accuracy),
    ("mcc", |figures| figures.mcc),
    ("ic", |figures| figures.ic),
    ("icir", |figures| figures.icir),
    ("rank ic", |figures| figures.rank_ic),
    ("rank icir", |figures| figures.rank_icir),
];

const OF_GROUPS: [Column; 6] = [
    ("forecasts", |figures| Some(figures.count as f64)),
    ("mse", |figures| figures.mse),
    ("mae", |figures| figures.mae),
    ("sign", |figures| figures.directional_accuracy),
    ("ic", |figures| figures.ic),
    ("rank ic", |figures| figures.rank_ic),
];

/// What a person wants to know.
pub(crate) fn table(found: &Evaluation) -> String {
    let mut out = String::new();
    head(&mut out, found);
    let mut rows = vec![("model".to_owned(), &found.overall)];
    for naive in &found.naive {
        let name = match naive.forecaster {
            NaiveForecaster::Last => "the last value",
            NaiveForecaster::Mean => "the mean so far",
            NaiveForecaster::Season => "a season before",
        };
        rows.push((name.to_owned(), &naive.figures));
        // Beside fewer forecasts, the model is shown on the same.
        let count = grouped(naive.figures.count);
        rows.extend(naive.model.as_ref().map(|ours| (format!(" model, of {count}"), ours)));
    }
    columns(&mut out, "", &ERRORS, &rows);
    columns(&mut out, "", &ORDERS, &rows[..1]);
    rows.retain(|(name, _)| !name.starts_with(' ') && name != "model");
    rows.retain(|(_, figures)| ORDERS.iter().any(|(_, of)| of(figures).is_some()));
    rows.iter().for_each(|(name, figures)| row(&mut out, name, &ORDERS, figures));
    quantiles(&mut out, &found.overall);
    found.by.iter().for_each(|grouped| groups(&mut out, grouped, found.folds.as_ref()));
    if let Some(deciles) = &found.deciles {
        tenths(&mut out, deciles);
    }
    line(&mut out, "");
    found.notes.iter().for_each(|note| wrapped(&mut out, note));
    out
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{}", text.trim_end()).expect("writing to a string cannot fail");
}

fn head(out: &mut String, found: &Evaluation) {
    let count = |count: u64, one: &str, many: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    };
    let mut text = format!(
        "{} of {} at {}",
        count(found.rows - found.without_outcome - found.unfinished, "forecast", "forecasts"),
        count(found.series, "series", "series"),
        count(found.times, "time", "times"),
    );
    if found.without_outcome > 0 {
        let without = grouped(found.without_outcome);
        write!(text, "; {without} more have no outcome").expect("writing to a string cannot fail");
    }
    line(out, &text);
    if found.unfinished > 0 {
        let unfinished = grouped(found.unfinished);
        let text =
            "more have one, but other steps or targets of their window have none (--partial)";
        wrapped(out, &format!("{unfinished} {text}"));
    }
}

/// A table with a heading, of these rows.
fn columns(out: &mut String, title: &str, columns: &[Column], rows: &[(String, &Figures)]) {
    line(out, "");
    let headings: String = columns.iter().map(|(heading, _)| format!("{heading:>10}")).collect();
    line(out, &format!("{title:<NAME$}{headings}"));
    rows.iter().for_each(|(name, figures)| row(out, name, columns, figures));
}

fn row(out: &mut String, name: &str, columns: &[Column], figures: &Figures) {
    let cells = columns.iter().map(|(heading, of)| match (*heading, of(figures)) {
        ("forecasts", Some(count)) => format!("{:>10}", grouped(count as u64)),
        (_, value) => format!("{:>10}", number(value)),
    });
    let cells: String = cells.collect();
    line(out, &format!("{:<NAME$}{cells}", short(name)));
}

/// A name that fits its column.
fn short(name: &str) -> String {
    match name.chars().count() < NAME {
        true => name.to_owned(),
        false => format!("{}… ", name.chars().take(NAME - 2).collect::<String>()),
    }
}

/// In at most nine characters.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e3).contains(&size) => format!("{value:.4}"),
        size if (1e3..1e5).contains(&size) => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn quantiles(out: &mut String, figures: &Figures) {
    let ends = figures.quantiles.first().zip(figures.quantiles.last());
    if let (Some(pinball), Some((low, high))) = (figures.pinball, ends) {
        let crps = number(figures.crps);
        line(out, "");
        line(out, &format!("quantiles: pinball {}, crps about {crps}", number(Some(pinball))));
        if let Some(coverage) = figures.coverage {
            let (low, high) = (low.quantile, high.quantile);
            let (found, meant) = (percent(coverage), percent(high - low));
            line(out, &format!("{found} of outcomes from {low} to {high}, {meant} expected"));
        }
    }
    for interval in &figures.intervals {
        let (Some(coverage), Some(width)) = (interval.coverage, interval.mean_width) else {
            continue;
        };
        let (level, found) = (interval.level, percent(coverage));
        let width = number(Some(width));
        line(out, &format!("interval {level}: {found} of outcomes, {width} wide in the mean"));
    }
}

fn groups(out: &mut String, of: &Grouped, folds: Option<&OverFolds>) {
    let is_fold = of.by.name() == "fold";
    // One group is all there is, unless somebody asked for a table of it.
    if of.groups.len() < 2 && matches!(of.by.name(), "step" | "target") {
        return;
    }
    let shown = of.groups.iter().take(MOST_GROUPS);
    let shown: Vec<_> = shown.map(|group| (group.group.clone(), &group.figures)).collect();
    columns(out, &format!("by {}", of.by.name()), &OF_GROUPS, &shown);
    if let Some(more @ 1..) = of.groups.len().checked_sub(MOST_GROUPS) {
        let more = grouped(more as u64);
        line(out, &format!("… and {more} more, all with --json or --output FILE.csv"));
    }
    if let (true, Some(folds)) = (is_fold, folds) {
        for (name, figures) in [("mean of folds", &folds.mean), ("± std", &folds.std)] {
            let cells: String = OF_GROUPS[1..]
                .iter()
                .map(|(_, of)| format!("{:>10}", number(of(figures))))
                .collect();
            line(out, &format!("{name:<NAME$}{:>10}{cells}", ""));
        }
    }
}

fn tenths(out: &mut String, deciles: &Deciles) {
    line(out, "");
    if deciles.overall.is_empty() {
        line(out, "no deciles: at no time are there ten series");
        return;
    }
    let heading = ["forecasts", "times", "forecast", "outcome"];
    let heading: String = heading.iter().map(|one| format!("{one:>12}")).collect();
    line(out, &format!("{:<NAME$}{heading}", "by decile"));
    let shown = deciles.overall.iter().take(2 * MOST_GROUPS);
    for one in shown {
        let name = short(&format!("{} {}", one.target, one.decile));
        let (count, times) = (grouped(one.count), grouped(one.times));
        let (said, came) = (number(Some(one.mean_forecast)), number(Some(one.mean_outcome)));
        line(out, &format!("{name:<NAME$}{count:>12}{times:>12}{said:>12}{came:>12}"));
    }
    if let Some(more @ 1..) = deciles.overall.len().checked_sub(2 * MOST_GROUPS) {
        line(out, &format!("… and {more} more, all with --json or --output FILE.csv"));
    }
    if deciles.too_few > 0 {
        let few = grouped(deciles.too_few);
        line(out, &format!("{few} times and steps have fewer than ten series, and no deciles"));
    }
}

/// A note, in lines of at most 80 columns.
fn wrapped(out: &mut String, note: &str) {
    let mut text = String::new();
    for word in note.split(' ') {
        let room = text.is_empty() || text.chars().count() + 1 + word.chars().count() <= 80;
        if !room {
            line(out, &text);
            "  ".clone_into(&mut text);
        } else if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    line(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        let check = |value, expected: &str| {
            assert_eq!(number(value), expected);
            assert!(expected.chars().count() <= 9, "{expected}");
        };
        check(None, "-");
        check(Some(0.0), "0");
        check(Some(0.12345), "0.1235");
        check(Some(-999.99), "-999.9900");
        check(Some(-12345.678), "-12345.68");
        check(Some(-1.2345e-10), "-1.23e-10");
        check(Some(1e300), "1.00e300");
    }

    #[test]
    fn notes_are_wrapped_and_names_are_cut() {
        let mut out = String::new();
        wrapped(&mut out, &"word ".repeat(40));
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
        assert_eq!(out.split_whitespace().count(), 40);
        assert_eq!(short("a name that is longer than its column").chars().count(), NAME);
    }
}
