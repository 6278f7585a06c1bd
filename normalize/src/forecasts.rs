//! What is to be forecast: which windows of which series, for a model that is trained.
//!
//! Without a word it is the model's test part, whose borders a checkpoint keeps, and no more.

use crate::{
    error::NormalizeError,
    moments::is_known,
    panel_rows::PanelRows,
    purpose::ForecastTimes,
    rows::ScaledRows,
    split::{Span, SplitPart},
    windows::{WindowIndex, WindowShape},
};
use millstream_data::{DataSchema, Panel, Scaling, WindowCounts, list_names};

/// What is to be forecast.
pub(crate) struct Forecasts<'a> {
    pub(crate) schema: &'a DataSchema,
    pub(crate) scaling: &'a Scaling,
    pub(crate) times: ForecastTimes,
    /// By name; empty for all.
    pub(crate) series: &'a [String],
}

/// Keeps where the test part lies, for who forecasts with the model later.
pub(crate) fn set_test_part(schema: &mut DataSchema, test: &SplitPart, names: &[String]) {
    let Span { from, until } = test.span;
    schema.test_start = from;
    schema.test_end = (until != i64::MAX).then_some(until);
    let held_out = (0..names.len()).filter(|code| test.has_series(*code as u32));
    let held_out: Vec<String> = held_out.map(|code| names[code].clone()).collect();
    schema.test_series = (held_out.len() < names.len()).then_some(held_out);
}

/// Says which of the series that are judged or forecast have no scale of their own, where others have.
pub(crate) fn without_own_scale(
    scaling: &Scaling,
    names: &[String],
    chosen: &[bool],
) -> Option<String> {
    const LISTED: usize = 5;
    let of_chosen = names.iter().zip(chosen).filter(|(_, chosen)| **chosen).map(|(name, _)| name);
    let unseen: Vec<&str> = of_chosen
        .filter(|name| !scaling.by_series.contains_key(*name))
        .map(String::as_str)
        .collect();
    if scaling.by_series.is_empty() || unseen.is_empty() {
        return None;
    }
    Some(format!(
        "scale.per = \"series\", but {} series had no rows to learn from and are scaled as their columns are: {}",
        unseen.len(),
        list_names(&unseen, LISTED)
    ))
}

/// Says which inputs of the model have no value in any row.
fn without_value(panel: &Panel, scaling: &Scaling) -> Option<String> {
    const LISTED: usize = 5;
    let (names, rows) = (&panel.schema().columns, PanelRows::new(panel));
    let is_empty = |name: &&str| {
        let at = names.iter().position(|column| column == name);
        at.is_some_and(|at| rows.rows(0..rows.len()).all(|row| !is_known(row[at])))
    };
    let inputs = scaling.features.iter().map(|column| column.name.as_str());
    let empty: Vec<&str> = inputs.filter(is_empty).collect();
    (!empty.is_empty()).then(|| {
        let columns = list_names(&empty, LISTED);
        format!("{columns}: no value in any row, though the model is shown it; forecasts are made without")
    })
}

impl Forecasts<'_> {
    /// The windows, and what the user should know of them.
    pub(crate) fn windows(
        &self,
        panel: &Panel,
        rows: &ScaledRows,
        shape: WindowShape,
    ) -> Result<(WindowIndex, Vec<String>), NormalizeError> {
        let (series, mut warnings) = self.series(&panel.schema().series)?;
        warnings.extend(without_value(panel, self.scaling));
        warnings.extend(without_own_scale(self.scaling, &panel.schema().series, &series));
        let index = match self.times {
            ForecastTimes::TestPart => {
                let until = self.schema.test_end.unwrap_or(i64::MAX);
                let part = SplitPart::series(Span { from: self.schema.test_start, until }, series);
                WindowIndex::forecastable(rows, shape, &part)
            }
            ForecastTimes::MadeIn(span) => {
                WindowIndex::made_in(rows, shape, &SplitPart::series(span, series))
            }
        };
        Ok((index, warnings))
    }

    /// By series code: whether it is forecast. Names that the data does not have are warnings.
    fn series(&self, names: &[String]) -> Result<(Vec<bool>, Vec<String>), NormalizeError> {
        let held_out = match (self.times, &self.schema.test_series) {
            (ForecastTimes::TestPart, Some(series)) => Some(series),
            _ => None,
        };
        let wanted = |name: &String| {
            (self.series.is_empty() || self.series.contains(name))
                && held_out.is_none_or(|held_out| held_out.contains(name))
        };
        let absent: Vec<String> =
            self.series.iter().filter(|name| !names.contains(name)).cloned().collect();
        if !self.series.is_empty() && absent.len() == self.series.len() {
            return Err(NormalizeError::NoSuchSeries { asked: absent, there: names.to_vec() });
        }
        let warning = format!("no forecast of {}: the data has no such series", absent.join(", "));
        let warnings = if absent.is_empty() { Vec::new() } else { vec![warning] };
        Ok((names.iter().map(wanted).collect(), warnings))
    }

    /// Why there is nothing to forecast.
    pub(crate) fn nothing(
        &self,
        panel: &Panel,
        rows: &ScaledRows,
        windows: &WindowCounts,
    ) -> NormalizeError {
        let format = |time: i64| panel.schema().format_time(time);
        let bound = |time: i64, what: &str| match time {
            i64::MIN | i64::MAX => String::new(),
            time => format!(" {what} {}", format(time)),
        };
        let asked = match self.times {
            ForecastTimes::TestPart => {
                let until = self.schema.test_end.unwrap_or(i64::MAX);
                let from = bound(self.schema.test_start, "from");
                format!("the run's test part{from}{}", bound(until, "before"))
            }
            ForecastTimes::MadeIn(Span { from, until }) => {
                format!("the times{}{}", bound(from, "from"), bound(until, "before"))
            }
        };
        let times = rows.times().iter();
        let ends = [times.clone().min(), times.max()];
        let [first, last] = ends.map(|time| time.map(|time| format(*time)).unwrap_or_default());
        NormalizeError::NothingToForecast {
            asked,
            lookback: self.schema.min_rows,
            first,
            last,
            short_series: windows.short_series,
            left_out: windows.missing_input + windows.missing_reference,
        }
    }
}
