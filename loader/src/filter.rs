//! Which rows are wanted: `symbols`, `from` and `to`.
//!
//! Readers of files ask this filter row by row. PostgreSQL gets the conditions in its `WHERE`, but
//! for bounds on times that are text, which it would compare as text.

use crate::{LoadError, SourceSettings, time};
use millstream_data::TimeKind;
use std::collections::HashSet;

/// The rows that are wanted.
#[derive(Debug)]
pub(crate) struct RowFilter {
    symbols: HashSet<String>,
    /// Whether names are the same whose letters differ in case only.
    caseless: bool,
    from: Option<Bound>,
    to: Option<Bound>,
}

#[derive(Debug)]
struct Bound {
    key: &'static str,
    text: String,
    time: i64,
    kind: TimeKind,
}

impl RowFilter {
    pub(crate) fn new(settings: &SourceSettings) -> Result<Self, LoadError> {
        Ok(RowFilter {
            symbols: settings.symbols.iter().cloned().collect(),
            caseless: false,
            from: Bound::new("from", settings.from.as_deref())?,
            to: Bound::new("to", settings.to.as_deref())?,
        })
    }

    /// Whether names are the same whose letters differ in case only.
    pub(crate) fn is_caseless(&self) -> bool {
        self.caseless
    }

    /// Whether only some series are wanted.
    pub(crate) fn chooses_series(&self) -> bool {
        !self.symbols.is_empty()
    }

    pub(crate) fn admits_series(&self, name: &str) -> bool {
        self.symbols.is_empty() || self.symbols.contains(name)
    }

    pub(crate) fn admits_time(&self, time: i64) -> bool {
        self.from.as_ref().is_none_or(|from| time >= from.time)
            && self.to.as_ref().is_none_or(|to| time < to.time)
    }

    /// Refuses bounds that are dates where the times are plain numbers, and the reverse.
    pub(crate) fn check_kind(&self, kind: TimeKind) -> Result<(), LoadError> {
        let integers = kind == TimeKind::Integer;
        match [&self.from, &self.to]
            .into_iter()
            .flatten()
            .find(|bound| (bound.kind == TimeKind::Integer) != integers)
        {
            Some(bound) => Err(LoadError::Setting {
                key: bound.key,
                value: bound.text.clone(),
                expected: if integers {
                    "the time column holds plain numbers, so an integer was expected"
                } else {
                    "the time column holds dates, so YYYY-MM-DD[ HH:MM:SS] was expected"
                },
            }),
            None => Ok(()),
        }
    }

    /// Wanted series that did not turn up.
    pub(crate) fn absent<'a>(&'a self, names: &[String]) -> Vec<&'a str> {
        let fold = |name: &str| if self.caseless { name.to_lowercase() } else { name.to_owned() };
        let found: HashSet<String> = names.iter().map(|name| fold(name)).collect();
        let absent = self.symbols.iter().filter(|name| !found.contains(&fold(name)));
        let mut absent: Vec<_> = absent.map(String::as_str).collect();
        absent.sort_unstable();
        absent
    }
}

/// What only a database needs: it chooses the rows itself, and knows names that differ in case only.
#[cfg(feature = "postgres")]
impl RowFilter {
    /// Takes names for the same whose letters differ in case only.
    pub(crate) fn ignore_case(&mut self) {
        self.caseless = true;
    }

    /// Spells the symbols as the names of series will be.
    pub(crate) fn spell_symbols(&mut self, spell: impl Fn(&str) -> String) {
        self.symbols = self.symbols.iter().map(|symbol| spell(symbol)).collect();
    }

    /// The bounds as times: from (inclusive) and to (exclusive).
    pub(crate) fn bounds(&self) -> (Option<i64>, Option<i64>) {
        (self.from.as_ref().map(|from| from.time), self.to.as_ref().map(|to| to.time))
    }
}

impl Bound {
    fn new(key: &'static str, text: Option<&str>) -> Result<Option<Self>, LoadError> {
        let Some(text) = text else { return Ok(None) };
        match time::parse(text) {
            Some((time, kind)) => Ok(Some(Bound { key, text: text.to_owned(), time, kind })),
            None => {
                Err(LoadError::Setting { key, value: text.to_owned(), expected: time::EXPECTED })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(from: &str, to: &str) -> RowFilter {
        let settings = SourceSettings {
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
            symbols: vec!["a".to_owned(), "b".to_owned()],
            ..SourceSettings::default()
        };
        RowFilter::new(&settings).unwrap()
    }

    #[test]
    fn from_is_in_and_to_is_out() {
        let filter = filter("5", "7");
        let admitted: Vec<_> = (4..9).filter(|time| filter.admits_time(*time)).collect();
        assert_eq!(admitted, [5, 6]);
        assert!(filter.admits_series("a") && !filter.admits_series("c"));
        assert_eq!(filter.absent(&["b".to_owned()]), ["a"]);
    }

    #[test]
    fn dates_do_not_bound_numbers() {
        let filter = filter("2015-01-01", "2016-01-01 12:00:00");
        assert!(filter.check_kind(TimeKind::Date).is_ok());
        assert!(filter.check_kind(TimeKind::Timestamp).is_ok());
        let error = filter.check_kind(TimeKind::Integer).unwrap_err().to_string();
        assert!(error.contains("source.from = \"2015-01-01\""), "{error}");
    }
}
