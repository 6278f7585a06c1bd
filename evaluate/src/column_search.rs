//! Which column of a table is what, found by what a person says, by how millstream names its forecasts, or
//! by what others call such columns. Where two columns could be one thing, that is refused.

use crate::{
    column_names,
    columns::{ColumnNames, Columns, IntervalColumns, JudgedColumns, QuantileColumn, Role},
    error::EvaluateError,
};
use millstream_data::MEDIAN;

impl Columns {
    /// What the columns of a table with these names are.
    ///
    /// # Errors
    /// When a column that is named is not there, or one that is needed cannot be told from its name.
    pub fn find(names: &[String], said: &ColumnNames) -> Result<Columns, EvaluateError> {
        let find = Find { names, said };
        let targets = find.targets()?;
        let step = find.key(Role::Step)?;
        let fold = find.key(Role::Fold)?;
        let mut target_time = find.key(Role::TargetTime)?;
        let ours = find.are_ours(&targets) && step.is_some();
        let keys = [&step, &fold, &target_time].into_iter().flatten().map(String::as_str);
        let left = find.left_of_ours(keys.collect());
        let (series, time) = match (find.said(Role::Series)?, find.said(Role::Time)?, &left[..]) {
            (None, None, [time]) if ours => (None, (*time).clone()),
            // Ours are the series, the time, the step, the time that is forecast, then the targets.
            (None, None, [series, time]) if ours => (Some((*series).clone()), (*time).clone()),
            (None, Some(time), [series]) if ours => (Some((*series).clone()), time),
            (Some(series), None, [time]) if ours => (Some(series), (*time).clone()),
            _ => {
                let time = find.time(&mut target_time)?;
                (find.key(Role::Series)?, time)
            }
        };
        let unused = Vec::new();
        let mut columns = Columns { series, time, target_time, step, fold, ours, targets, unused };
        columns.check_apart(names)?;
        columns.unused = find.unused(&columns);
        Ok(columns)
    }
}

struct Find<'a> {
    names: &'a [String],
    said: &'a ColumnNames,
}

impl Find<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// What a person said of such a column, if it is there.
    fn said(&self, role: Role) -> Result<Option<String>, EvaluateError> {
        let said = self.said;
        let name = match role {
            Role::Series => &said.series,
            Role::Time => &said.time,
            Role::TargetTime => &said.target_time,
            Role::Step => &said.step,
            Role::Fold => &said.fold,
            Role::Forecast => &said.forecast,
            Role::Actual => &said.actual,
        };
        match name {
            Some(name) if !self.has(name) => {
                let (column, columns) = (name.clone(), self.names.to_vec());
                Err(EvaluateError::UnknownColumn { role, column, columns })
            }
            name => Ok(name.clone()),
        }
    }

    /// The one column that is called like such a one.
    fn key(&self, role: Role) -> Result<Option<String>, EvaluateError> {
        if let Some(name) = self.said(role)? {
            return Ok(Some(name));
        }
        let known = column_names::known(role);
        // What stands in every table of ours is not mistaken for a target of such a name.
        let ours = matches!(role, Role::Step | Role::TargetTime | Role::Fold);
        if ours && self.has(known[0]) {
            return Ok(Some(known[0].to_owned()));
        }
        let is_known = |name: &&String| known.contains(&name.to_lowercase().as_str());
        let found: Vec<String> = self.names.iter().filter(is_known).cloned().collect();
        match found.len() {
            0 | 1 => Ok(found.into_iter().next()),
            _ => Err(EvaluateError::Ambiguous { role, columns: found }),
        }
    }

    /// The same of one that must be there.
    fn needed(&self, role: Role) -> Result<String, EvaluateError> {
        let columns = || self.names.to_vec();
        self.key(role)?.ok_or_else(|| EvaluateError::NoColumn { role, columns: columns() })
    }

    /// When forecasts were made. Beside a "cutoff", a plain time is the one that is forecast.
    fn time(&self, target_time: &mut Option<String>) -> Result<String, EvaluateError> {
        let named = self.said.time.is_some() || self.said.target_time.is_some();
        let cutoff = self.names.iter().find(|name| name.eq_ignore_ascii_case(column_names::CUTOFF));
        match cutoff {
            Some(cutoff) if !named && target_time.is_none() => {
                *target_time = Some(self.needed(Role::Time)?);
                Ok(cutoff.clone())
            }
            Some(cutoff) if self.said.time.is_none() => Ok(cutoff.clone()),
            _ => self.needed(Role::Time),
        }
    }

    /// Whether these targets are of a table of ours.
    fn are_ours(&self, targets: &[JudgedColumns]) -> bool {
        let ours: Vec<_> = self.ours().collect();
        targets.iter().all(|target| ours.contains(&(&target.outcome, &target.forecast)))
    }

    /// The columns of a table of ours that are neither these, nor of a target, nor what a person named.
    fn left_of_ours(&self, keys: Vec<&str>) -> Vec<&String> {
        let said = [&self.said.series, &self.said.time].into_iter().flatten().map(String::as_str);
        let taken: Vec<&str> = keys.into_iter().chain(said).collect();
        let ours: Vec<_> = self.ours().collect();
        let of_target = |name: &str| {
            ours.iter().any(|(outcome, said)| {
                let rest = name.strip_prefix(outcome.as_str());
                let more = |rest: &str| {
                    column_names::OUR_COLUMNS.iter().any(|start| rest.starts_with(start))
                };
                name == *outcome || name == *said || rest.is_some_and(more)
            })
        };
        let left = self.names.iter().filter(|name| !taken.contains(&name.as_str()));
        let left = left.filter(|name| !of_target(name));
        left.filter(|name| !column_names::BESIDE_OURS.contains(&name.as_str())).collect()
    }

    /// The targets of a table of ours: what came, and what was said of it.
    fn ours(&self) -> impl Iterator<Item = (&String, &String)> {
        self.names.iter().filter_map(move |said| {
            let mut endings = column_names::OUR_FORECASTS.iter();
            let outcome = endings.find_map(|ending| said.strip_suffix(*ending))?;
            self.names.iter().find(|name| *name == outcome).map(|outcome| (outcome, said))
        })
    }

    fn targets(&self) -> Result<Vec<JudgedColumns>, EvaluateError> {
        let (forecast, actual) = (self.said(Role::Forecast)?, self.said(Role::Actual)?);
        let ours = self.ours();
        let found: Vec<_> = match (&forecast, &actual) {
            (None, None) => ours.collect(),
            (Some(forecast), None) => ours.filter(|(_, said)| *said == forecast).collect(),
            (None, Some(actual)) => ours.filter(|(outcome, _)| *outcome == actual).collect(),
            (Some(_), Some(_)) => Vec::new(),
        };
        if found.is_empty() {
            let forecast = self.needed(Role::Forecast)?;
            let outcome = self.needed(Role::Actual)?;
            return Ok(vec![self.target(&outcome, &forecast, false)?]);
        }
        found.into_iter().map(|(outcome, said)| self.target(outcome, said, true)).collect()
    }

    fn target(
        &self,
        outcome: &str,
        forecast: &str,
        ours: bool,
    ) -> Result<JudgedColumns, EvaluateError> {
        let mut quantiles = Vec::new();
        let mut intervals: Vec<IntervalColumns> = Vec::new();
        for name in self.names {
            let bare = if ours { None } else { share(name) };
            let after = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.strip_prefix("_q"));
            let prefixed = after(outcome).or_else(|| after(forecast)).and_then(share);
            if let Some(quantile) = prefixed.or(bare) {
                quantiles.push(QuantileColumn { quantile, column: name.clone() });
            }
            for prefix in [outcome, forecast] {
                if let Some(interval) = self.interval(name, prefix)? {
                    let known = intervals.iter().any(|known| known.lower == interval.lower);
                    intervals.extend((!known).then_some(interval));
                }
            }
        }
        if ours && self.forecast_is_median(forecast, &quantiles) {
            let column = forecast.to_owned();
            quantiles.push(QuantileColumn { quantile: MEDIAN, column });
        }
        quantiles.sort_by(|a, b| a.quantile.total_cmp(&b.quantile));
        intervals.sort_by(|a, b| a.level.total_cmp(&b.level));
        let (outcome, forecast) = (outcome.to_owned(), forecast.to_owned());
        let score = column_names::is_score(&forecast);
        Ok(JudgedColumns { outcome, forecast, score, quantiles, intervals })
    }

    /// Whether the forecast stands between the quantiles as their median, as in what we write: a whole table of
    /// ours, with quantiles on both sides, of which nobody said what the forecast is.
    fn forecast_is_median(&self, forecast: &str, quantiles: &[QuantileColumn]) -> bool {
        let any = |side: fn(&f64) -> bool| quantiles.iter().any(|one| side(&one.quantile));
        let both = any(|quantile| *quantile < MEDIAN) && any(|quantile| *quantile > MEDIAN);
        let whole = [Role::Step, Role::TargetTime].map(|role| column_names::known(role)[0]);
        both && !any(|quantile| *quantile == MEDIAN)
            && whole.iter().all(|name| self.has(name))
            && self.said.forecast.is_none()
            && !column_names::is_score(forecast)
    }

    /// Columns that are called like parts of forecasts, and are none of these.
    fn unused(&self, columns: &Columns) -> Vec<String> {
        let used: Vec<&str> = columns.names().collect();
        // Who names a column leaves out the others.
        let all = self.said.forecast.is_none() && self.said.actual.is_none();
        let of_targets = || columns.targets.iter().flat_map(|one| [&one.outcome, &one.forecast]);
        let is_part = |name: &str| {
            let forecast = column_names::OUR_FORECASTS[0];
            (all && name.strip_suffix(forecast).is_some_and(|before| !before.is_empty()))
                || of_targets()
                    .filter_map(|of| name.strip_prefix(of.as_str()))
                    .any(column_names::is_part)
        };
        let unused = self.names.iter().filter(|name| !used.contains(&name.as_str()));
        unused.filter(|name| is_part(name)).cloned().collect()
    }

    /// The interval of which `name` is a bound: of ours a level, of others a percentage.
    fn interval(&self, name: &str, prefix: &str) -> Result<Option<IntervalColumns>, EvaluateError> {
        let Some(rest) = name.strip_prefix(prefix) else { return Ok(None) };
        for (lower, upper, percent) in [("_lower_", "_upper_", 1.0), ("-lo-", "-hi-", 100.0)] {
            let (level, other) = match (rest.strip_prefix(lower), rest.strip_prefix(upper)) {
                (Some(level), _) => (level, upper),
                (_, Some(level)) => (level, lower),
                (None, None) => continue,
            };
            let Some(share) = level.parse::<f64>().ok().and_then(|n| inside(n / percent)) else {
                continue;
            };
            let other = format!("{prefix}{other}{level}");
            if !self.has(&other) {
                return Err(EvaluateError::HalfAnInterval { column: name.to_owned(), other });
            }
            let [lower, upper] = [lower, upper].map(|side| format!("{prefix}{side}{level}"));
            return Ok(Some(IntervalColumns { level: share, lower, upper }));
        }
        Ok(None)
    }
}

/// A number between 0 and 1.
fn share(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().and_then(inside)
}

fn inside(number: f64) -> Option<f64> {
    (number > 0.0 && number < 1.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(names: &[&str], said: &ColumnNames) -> Result<Columns, EvaluateError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        Columns::find(&names, said)
    }

    fn check(names: &[&str], expected: &str) {
        let found = find(names, &ColumnNames::default()).map(|columns| columns.to_string());
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{names:?}");
    }

    #[test]
    fn ours_are_told_by_their_names_and_places() {
        check(
            &["symbol", "trade_date", "step", "target_time", "close_forecast", "close"],
            "series symbol, time trade_date, time that is forecast target_time, step step; \
             forecast close_forecast of close",
        );
        check(
            &["day", "step", "target_time", "a_score", "a", "b_forecast", "b_q0.1", "b"],
            "one series, time day, time that is forecast target_time, step step; score a_score of \
             a; forecast b_forecast of b, 1 quantile",
        );
        check(
            &[
                "fold",
                "who",
                "when",
                "step",
                "target_time",
                "y_forecast",
                "y_lower_0.9",
                "y_upper_0.9",
                "y",
                "model",
                "run",
                "created_at",
            ],
            "series who, time when, time that is forecast target_time, step step, fold fold; \
             forecast y_forecast of y, 1 interval",
        );
    }

    #[test]
    fn the_median_of_ours_is_the_forecast() {
        let names = ["s", "t", "step", "target_time", "y_forecast", "y_q0.9", "y_q0.1", "y"];
        let quantiles = |names: &[&str], said: &ColumnNames| -> Vec<(f64, String)> {
            let columns = find(names, said).unwrap();
            let found = columns.targets[0].quantiles.iter();
            found.map(|quantile| (quantile.quantile, quantile.column.clone())).collect()
        };
        let of = |all: &[(f64, &str)]| -> Vec<(f64, String)> {
            all.iter().map(|(quantile, name)| (*quantile, (*name).to_owned())).collect()
        };
        let nobody = ColumnNames::default();
        let expected = of(&[(0.1, "y_q0.1"), (0.5, "y_forecast"), (0.9, "y_q0.9")]);
        assert_eq!(quantiles(&names, &nobody), expected);
        let line = find(&names, &nobody).unwrap().to_string();
        let expected =
            "3 quantiles, of which 0.5 is y_forecast itself (not with --forecast y_forecast)";
        assert!(line.ends_with(expected), "{line}");
        // Not of others', nor where all are on one side, nor where somebody says what the forecast is.
        let named = of(&[(0.1, "y_q0.1"), (0.9, "y_q0.9")]);
        assert_eq!(
            quantiles(&["s", "date", "y_forecast", "y_q0.9", "y_q0.1", "y"], &nobody),
            named
        );
        let said =
            ColumnNames { forecast: Some("y_forecast".to_owned()), ..ColumnNames::default() };
        assert_eq!(quantiles(&names, &said), named);
        let low = ["s", "t", "step", "target_time", "y_forecast", "y_q0.2", "y_q0.1", "y"];
        assert_eq!(quantiles(&low, &nobody), of(&[(0.1, "y_q0.1"), (0.2, "y_q0.2")]));
    }

    #[test]
    fn what_looks_like_a_part_and_is_not_read_is_known() {
        let unused = |names: &[&str]| find(names, &ColumnNames::default()).unwrap().unused;
        let names = [
            "s",
            "date",
            "step",
            "y_forecast",
            "y_q0.1",
            "y_q10",
            "y_q1.5",
            "y_lower",
            "y_upper",
            "y",
            "y_quality",
            "z_forecast",
            "_forecast",
            "yearly",
            "model",
        ];
        assert_eq!(unused(&names), ["y_q10", "y_q1.5", "y_lower", "y_upper", "z_forecast"]);
        let names = ["date", "yhat", "yhat_lower", "yhat-lo-x", "y", "credit_score", "y_low"];
        assert_eq!(unused(&names), ["yhat_lower", "yhat-lo-x"]);
    }

    #[test]
    fn peers_are_told_by_what_such_columns_are_called() {
        check(
            &["Date", "ticker", "prediction", "actual"],
            "series ticker, time Date, all of step 1; forecast prediction of actual",
        );
        check(
            &["datetime", "instrument", "score", "label"],
            "series instrument, time datetime, all of step 1; score score of label",
        );
        check(
            &["unique_id", "ds", "cutoff", "yhat", "yhat-lo-90", "yhat-hi-90", "y"],
            "series unique_id, time cutoff, time that is forecast ds, steps counted by ds; forecast yhat of y, 1 interval",
        );
        check(
            &["item_id", "timestamp", "forecast", "0.1", "0.9", "target"],
            "series item_id, time timestamp, all of step 1; forecast forecast of target, 2 quantiles",
        );
    }

    #[test]
    fn what_is_ambiguous_or_missing_is_refused() {
        check(
            &["date", "symbol", "yhat", "pred", "y"],
            "yhat, pred could each be the forecast; name one with --forecast",
        );
        check(
            &["date", "symbol", "yhat"],
            "no column is named like the outcome; name it with --actual; the table has date, symbol, yhat",
        );
        check(
            &["date", "id", "symbol", "yhat", "y"],
            "id, symbol could each be the series; name one with --series",
        );
        check(
            &["x", "symbol", "yhat", "y"],
            "no column is named like the time of a forecast; name it with --time; the table has x, symbol, yhat, y",
        );
        check(
            &["date", "yhat", "yhat-lo-90", "y"],
            "the table has column \"yhat-lo-90\", but no \"yhat-hi-90\"; an interval has two bounds",
        );
    }

    #[test]
    fn a_person_has_the_last_word() {
        let said = |forecast: &str, actual: Option<&str>, time: Option<&str>| ColumnNames {
            forecast: Some(forecast.to_owned()),
            actual: actual.map(str::to_owned),
            time: time.map(str::to_owned),
            ..ColumnNames::default()
        };
        let names = ["date", "symbol", "yhat", "pred", "y", "came"];
        let found = find(&names, &said("pred", Some("came"), None)).unwrap();
        assert_eq!(
            found.to_string(),
            "series symbol, time date, all of step 1; forecast pred of came"
        );
        let error = find(&names, &said("prad", None, None)).unwrap_err().to_string();
        assert!(
            error.contains("no column \"prad\" for --forecast; did you mean \"pred\"?"),
            "{error}"
        );
        let error = find(&names, &said("pred", Some("pred"), None)).unwrap_err().to_string();
        assert_eq!(error, "column \"pred\" cannot be both the forecast and the outcome");
        let ours = ["s", "d", "step", "a_forecast", "a", "b_forecast", "b"];
        let found = find(&ours, &said("b_forecast", None, Some("d"))).unwrap();
        assert_eq!(found.to_string(), "series s, time d, step step; forecast b_forecast of b");
    }
}
