//! What is to be forecast: which windows of which series, for a model that is trained, and what a person
//! should know of them.
//!
//! Without a word it is the model's test part, whose borders a checkpoint keeps, and no more.

use crate::{
    beyond_fit::beyond_fit,
    error::NormalizeError,
    forecast_ends::{Ends, Known},
    hindsight::Hindsight,
    moments::is_known,
    panel_rows::PanelRows,
    purpose::{ForecastTimes, PredictPurpose},
    rows::ScaledRows,
    split::{Span, Split, SplitPart},
    stale,
    windows::{WindowIndex, WindowShape},
};
use millstream_data::{
    DataSchema, Panel, PartBorders, Scaling, WindowCounts, list_names, nearest_name,
};

/// Names that a line lists.
const LISTED: usize = 5;

/// What is to be forecast, of a panel.
pub(crate) struct Forecasts<'a> {
    pub(crate) asked: &'a PredictPurpose,
    pub(crate) panel: &'a Panel,
}

/// The windows to forecast.
pub(crate) struct Found {
    pub(crate) index: WindowIndex,
    /// The series that have too few rows for one, by name.
    pub(crate) short_series: Vec<String>,
    /// What the user should know, a line each.
    pub(crate) warnings: Vec<String>,
}

/// Keeps where the parts lie, for who forecasts with the model later.
pub(crate) fn set_parts(schema: &mut DataSchema, split: &Split, names: &[String]) {
    let series = |part: &SplitPart| {
        let members = (0..names.len()).filter(|code| part.has_series(*code as u32));
        let members: Vec<String> = members.map(|code| names[code].clone()).collect();
        (members.len() < names.len()).then_some(members)
    };
    let borders = |part: &SplitPart| {
        let Span { from, until } = part.span;
        let (from, until) =
            ((from != i64::MIN).then_some(from), (until != i64::MAX).then_some(until));
        PartBorders { from, until, series: series(part) }
    };
    schema.train_part = Some(borders(split.train().part()));
    schema.validation_part = Some(borders(&split.validation));
    let Span { from, until } = split.test.span;
    schema.test_start = from;
    schema.test_end = (until != i64::MAX).then_some(until);
    schema.test_series = series(&split.test);
}

/// Says which of the series that are judged or forecast have no scale of their own, where others have.
pub(crate) fn without_own_scale(
    scaling: &Scaling,
    names: &[String],
    chosen: &[bool],
) -> Option<String> {
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
    pub(crate) fn find(
        &self,
        rows: &ScaledRows,
        shape: WindowShape,
    ) -> Result<Found, NormalizeError> {
        let PredictPurpose { scaling, times, as_of, now, .. } = self.asked;
        let borders = self.borders()?;
        let (chosen, mut warnings) = self.chosen(&borders)?;
        let names = &self.panel.schema().series;
        let hindsight = Hindsight {
            times: *times,
            as_of: *as_of,
            intervals: self.asked.calibrate,
            train: self.asked.schema.train_part.as_ref(),
            validation: self.asked.schema.validation_part.as_ref(),
        };
        warnings.extend(hindsight.warnings(|time| self.panel.schema().format_time(time)));
        warnings.extend(without_value(self.panel, scaling));
        warnings.extend(without_own_scale(scaling, names, &chosen));
        let known = Known::new(rows, *as_of);
        let part = SplitPart::series(borders.span, chosen);
        let ends = match *times {
            // Data that end before the part have none of its windows, but may go on into it.
            ForecastTimes::TestPart | ForecastTimes::ValidationPart | ForecastTimes::TrainPart
                if known.end_well_before(part.span.from) =>
            {
                Vec::new()
            }
            ForecastTimes::TestPart | ForecastTimes::ValidationPart | ForecastTimes::TrainPart => {
                known.that_forecast(shape, &part)
            }
            ForecastTimes::MadeIn(_) => known.made_in(&part),
            ForecastTimes::Newest(count) => known.newest(&part, count),
            ForecastTimes::ToCome => known.to_come(shape, &part),
        };
        if let ForecastTimes::Newest(_) | ForecastTimes::ToCome = times {
            let schema = self.panel.schema();
            warnings.extend(stale::series_behind(&known, &part, schema));
            warnings.extend(stale::behind_the_present(&known, schema, as_of.or(*now)));
        }
        let is_short = |ends: &&Ends| ends.series.end - ends.series.start < shape.min_rows;
        let short = ends.iter().filter(is_short);
        let short_series = short.map(|ends| names[ends.series.code as usize].clone()).collect();
        let index = WindowIndex::ending_in(rows, shape, ends);
        warnings.extend(beyond_fit(self.panel, scaling, &index));
        Ok(Found { index, short_series, warnings })
    }

    /// The windows of the validation part, of all series and with known outcomes.
    pub(crate) fn to_calibrate(
        &self,
        rows: &ScaledRows,
        shape: WindowShape,
    ) -> Result<WindowIndex, NormalizeError> {
        let kept = self.asked.schema.validation_part.as_ref();
        let borders = Borders::kept("validation", kept)?;
        let names = &self.panel.schema().series;
        let is_in = |name| borders.series.is_none_or(|series| series.contains(name));
        let part = SplitPart::series(borders.span, names.iter().map(is_in).collect());
        let known = Known::new(rows, self.asked.as_of);
        Ok(WindowIndex::ending_in(rows, shape, known.that_forecast(shape, &part)))
    }

    /// Where and of which series forecasts are asked for, whether by their outcomes or by when they are
    /// made.
    fn borders(&self) -> Result<Borders<'_>, NormalizeError> {
        let schema = &self.asked.schema;
        match self.asked.times {
            ForecastTimes::TestPart => Ok(Borders {
                said: "the run's test part".to_owned(),
                span: span(Some(schema.test_start), schema.test_end),
                series: schema.test_series.as_deref(),
            }),
            ForecastTimes::ValidationPart => {
                Borders::kept("validation", schema.validation_part.as_ref())
            }
            ForecastTimes::TrainPart => Borders::kept("training", schema.train_part.as_ref()),
            ForecastTimes::MadeIn(span) => Ok(Borders { span, ..Borders::all("the times") }),
            ForecastTimes::Newest(count) if count.get() == 1 => {
                Ok(Borders::all("the last row of each series"))
            }
            ForecastTimes::Newest(count) => {
                Ok(Borders::all(format!("the last {count} rows of each series")))
            }
            ForecastTimes::ToCome => Ok(Borders::all("what is still to come")),
        }
    }

    /// By series code: whether it is forecast. Names that the data does not have are warnings.
    fn chosen(&self, borders: &Borders<'_>) -> Result<(Vec<bool>, Vec<String>), NormalizeError> {
        let (asked, names) = (&self.asked.series, &self.panel.schema().series);
        let wanted = |name: &String| {
            (asked.is_empty() || asked.contains(name))
                && borders.series.is_none_or(|series| series.contains(name))
        };
        let absent: Vec<String> =
            asked.iter().filter(|name| !names.contains(name)).cloned().collect();
        if !asked.is_empty() && absent.len() == asked.len() {
            return Err(NormalizeError::NoSuchSeries { asked: absent, there: names.clone() });
        }
        let meant = |name: &String| match nearest_name(name, names.iter().map(String::as_str)) {
            Some(nearest) => format!("{name} (did you mean {nearest:?}?)"),
            None => name.clone(),
        };
        let warning = (!absent.is_empty()).then(|| {
            let said: Vec<String> = absent.iter().take(LISTED).map(meant).collect();
            let more = match absent.len() - said.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("no forecast of {}{more}: the data has no such series", said.join(", "))
        });
        Ok((names.iter().map(wanted).collect(), warning.into_iter().collect()))
    }

    /// Why there is nothing to forecast.
    pub(crate) fn nothing(&self, rows: &ScaledRows, windows: &WindowCounts) -> NormalizeError {
        let format = |time: i64| self.panel.schema().format_time(time);
        let bound = |time: i64, what: &str| match time {
            i64::MIN | i64::MAX => String::new(),
            time => format!(" {what} {}", format(time)),
        };
        let asked = match self.borders() {
            Ok(Borders { said, span: Span { from, until }, .. }) => {
                format!("{said}{}{}", bound(from, "from"), bound(until, "before"))
            }
            Err(error) => return error,
        };
        let as_of = self.asked.as_of.map(|time| format!(", as of {}", format(time)));
        let span = Known::new(rows, None).span();
        let (first, last) =
            span.map_or_else(Default::default, |(first, last)| (format(first), format(last)));
        NormalizeError::NothingToForecast {
            asked: asked + &as_of.unwrap_or_default(),
            lookback: self.asked.schema.min_rows,
            first,
            last,
            short_series: windows.short_series,
            left_out: windows.missing_input + windows.missing_reference,
        }
    }
}

/// What forecasts are asked for.
struct Borders<'a> {
    /// In words.
    said: String,
    span: Span,
    /// `None` for all.
    series: Option<&'a [String]>,
}

impl<'a> Borders<'a> {
    fn all(said: impl Into<String>) -> Self {
        Borders { said: said.into(), span: Span::ALL, series: None }
    }

    /// Those that a checkpoint keeps of a part.
    fn kept(part: &'static str, kept: Option<&'a PartBorders>) -> Result<Self, NormalizeError> {
        let PartBorders { from, until, series } =
            kept.ok_or(NormalizeError::PartNotKept { part })?;
        let said = format!("the run's {part} part");
        Ok(Borders { said, span: span(*from, *until), series: series.as_deref() })
    }
}

fn span(from: Option<i64>, until: Option<i64>) -> Span {
    Span { from: from.unwrap_or(i64::MIN), until: until.unwrap_or(i64::MAX) }
}
