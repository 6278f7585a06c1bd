//! Which forecasts of a run are asked for, as a person writes it.

use crate::error::Error;
use millstream_data::DataSchema;
use millstream_normalize::{ForecastTimes, Span};
use std::num::NonZeroUsize;

/// A part of a run's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForecastPart {
    /// What it learned from.
    Train,
    /// What its best epoch was chosen by.
    Validation,
    /// What it was tested on, and what came after that.
    Test,
    /// The windows of whose steps one at least has no outcome yet.
    New,
}

/// Which forecasts; by default those of the test part.
#[derive(Debug, Clone, Default)]
pub(crate) struct AskedTimes {
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) as_of: Option<String>,
    pub(crate) last: Option<NonZeroUsize>,
    pub(crate) part: Option<ForecastPart>,
}

#[derive(Debug, thiserror::Error)]
enum TimesError {
    #[error("--{flag} {text:?} is not a time; write it like {example:?}")]
    Time { flag: &'static str, text: String, example: String },
    #[error("--from {from} is not before --to {to}, so no forecast is made between them")]
    NoTime { from: String, to: String },
    #[error("{first} and {second} both choose the forecasts; leave one of them out")]
    Both { first: &'static str, second: &'static str },
}

impl AskedTimes {
    /// What that means to a model with this contract.
    pub(crate) fn times(&self, schema: &DataSchema) -> Result<ForecastTimes, Error> {
        self.check_one()?;
        let kind = schema.time_kind;
        if let Some(part) = self.part {
            return Ok(match part {
                ForecastPart::Train => ForecastTimes::TrainPart,
                ForecastPart::Validation => ForecastTimes::ValidationPart,
                ForecastPart::Test => ForecastTimes::TestPart,
                ForecastPart::New => ForecastTimes::ToCome,
            });
        }
        if let Some(count) = self.last {
            return Ok(ForecastTimes::Newest(count));
        }
        match (parse(schema, "from", self.from.as_ref())?, parse(schema, "to", self.to.as_ref())?) {
            (None, None) if self.as_of.is_some() => Ok(ForecastTimes::MadeIn(Span::ALL)),
            (None, None) => Ok(ForecastTimes::TestPart),
            (Some(from), Some(to)) if from >= to => {
                let (from, to) = (kind.format(from), kind.format(to));
                Err(Error::settings(TimesError::NoTime { from, to }))
            }
            (from, to) => {
                let (from, until) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
                Ok(ForecastTimes::MadeIn(Span { from, until }))
            }
        }
    }

    /// The time after which nothing is known, where there is one.
    pub(crate) fn as_of(&self, schema: &DataSchema) -> Result<Option<i64>, Error> {
        parse(schema, "as-of", self.as_of.as_ref())
    }

    /// Refuses two choices at once.
    fn check_one(&self) -> Result<(), Error> {
        let given = [
            self.part.map(|_| "--part"),
            self.last.map(|_| "--last"),
            self.from.as_ref().or(self.to.as_ref()).map(|_| "--from or --to"),
        ];
        let mut given = given.into_iter().flatten();
        match (given.next(), given.next()) {
            (Some(first), Some(second)) => Err(Error::settings(TimesError::Both { first, second })),
            _ => Ok(()),
        }
    }
}

fn parse(
    schema: &DataSchema,
    flag: &'static str,
    text: Option<&String>,
) -> Result<Option<i64>, Error> {
    let Some(text) = text else { return Ok(None) };
    let kind = schema.time_kind;
    kind.parse(text).map(Some).ok_or_else(|| {
        // A run without a test part has no such time.
        let example = [schema.test_start, 0].into_iter().find(|time| *time < i64::MAX);
        let (text, example) = (text.clone(), kind.format(example.unwrap_or(0)));
        Error::settings(TimesError::Time { flag, text, example })
    })
}
