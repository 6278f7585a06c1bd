//! Forecasts that know more than anybody could have known when they are dated: said, not refused, as to look
//! at them is of use all the same.

use crate::{purpose::ForecastTimes, split::Span};
use millstream_data::PartBorders;

/// What is asked for, and where the parts lie that the model has seen.
pub(crate) struct Hindsight<'a> {
    pub(crate) times: ForecastTimes,
    pub(crate) as_of: Option<i64>,
    /// Whether there are intervals, which are calibrated on the validation part.
    pub(crate) intervals: bool,
    pub(crate) train: Option<&'a PartBorders>,
    pub(crate) validation: Option<&'a PartBorders>,
}

impl Hindsight<'_> {
    /// A line for each, with times written so.
    pub(crate) fn warnings(&self, format: impl Fn(i64) -> String) -> Vec<String> {
        let mut lines = Vec::new();
        let end = |part: Option<&PartBorders>| part.and_then(|part| part.until);
        if let (Some(as_of), Some(learned)) = (self.as_of, end(self.train))
            && as_of < learned
        {
            lines.push(format!(
                "the model learned from outcomes up to {}, so what it forecasts as of {} is not what it would have been that day",
                format(learned),
                format(as_of)
            ));
        }
        let calibrated = end(self.validation).unwrap_or(i64::MAX);
        let is_before = match self.times {
            ForecastTimes::ValidationPart | ForecastTimes::TrainPart => true,
            ForecastTimes::MadeIn(Span { from, .. }) => from < calibrated,
            _ => false,
        };
        if self.intervals && is_before {
            lines.push(
                "intervals are calibrated by the outcomes of the run's validation part, and some of these forecasts are made before they were known: how many outcomes lie inside says nothing of those to come"
                    .to_owned(),
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times: ForecastTimes, as_of: Option<i64>, intervals: bool, expected: &[&str]) {
        let part = |from, until| PartBorders { from, until: Some(until), series: None };
        let (train, validation) = (part(None, 10), part(Some(10), 20));
        let (train, validation) = (Some(&train), Some(&validation));
        let asked = Hindsight { times, as_of, intervals, train, validation };
        let lines = asked.warnings(|time| format!("day {time}"));
        let starts = lines.len() == expected.len()
            && lines.iter().zip(expected).all(|(line, start)| line.starts_with(start));
        assert!(starts, "{lines:?}");
    }

    #[test]
    fn what_could_not_be_known_is_said() {
        let learned =
            "the model learned from outcomes up to day 10, so what it forecasts as of day 9";
        let calibrated = "intervals are calibrated by the outcomes";
        let since = |from| ForecastTimes::MadeIn(Span { from, until: 30 });
        check(ForecastTimes::TestPart, None, true, &[]);
        check(ForecastTimes::TestPart, Some(10), true, &[]);
        check(ForecastTimes::TestPart, Some(9), false, &[learned]);
        check(ForecastTimes::ValidationPart, None, false, &[]);
        check(ForecastTimes::ValidationPart, None, true, &[calibrated]);
        check(ForecastTimes::TrainPart, Some(9), true, &[learned, calibrated]);
        check(since(19), None, true, &[calibrated]);
        check(since(20), None, true, &[]);
        check(since(19), None, false, &[]);
    }
}
