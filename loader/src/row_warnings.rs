//! [`RowWarnings`]: what a person must know about the rows of a panel, for as long as it is used.
//!
//! They are kept in the cache's manifest and said again whenever the panel is opened. What happened
//! on the way to the rows, to a connection for one, is said once and not kept.

use crate::{LoadError, SourceSettings, filter::RowFilter};
use millstream_data::nearest_name;
use millstream_stage::Warnings;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Names, or lines, that are listed before the rest is only counted.
const LISTED: usize = 10;

/// What a person must know about the rows of a panel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RowWarnings {
    /// The symbols that have no rows, listed with what may have been meant; `None` when all have.
    pub(crate) absent: Option<String>,
    /// Everything else.
    pub(crate) lines: Vec<String>,
}

impl RowWarnings {
    /// What there is to say about symbols, and about single columns, of which there may be thousands.
    pub(crate) fn new(absent: Option<String>, mut columns: Vec<String>) -> Self {
        let more = columns.len().saturating_sub(LISTED);
        if more > 0 {
            columns.truncate(LISTED);
            columns.push(format!("{more} more columns are left out of source.features like these"));
        }
        RowWarnings { absent, lines: columns }
    }

    /// Says everything.
    ///
    /// # Errors
    /// [`LoadError::AbsentSymbols`] where the settings want no symbol to be absent.
    pub(crate) fn say(
        &self,
        settings: &SourceSettings,
        warnings: &Warnings,
    ) -> Result<(), LoadError> {
        if let Some(symbols) = &self.absent {
            if settings.symbols_required {
                return Err(LoadError::AbsentSymbols { symbols: symbols.clone() });
            }
            warnings.warn(format!("no rows for some of source.symbols: {symbols}"));
        }
        self.lines.iter().for_each(|line| warnings.warn(line));
        Ok(())
    }
}

/// Lists the wanted series that have no rows; `known` are the names that the source is known to
/// have, wanted or not.
pub(crate) fn absent_symbols(
    filter: &RowFilter,
    place: &str,
    loaded: &[String],
    known: &[String],
) -> Option<String> {
    let absent = filter.absent(loaded);
    let exists: HashSet<&str> = known.iter().map(String::as_str).collect();
    let describe = |symbol: &&str| {
        let names = known.iter().chain(loaded).map(String::as_str);
        match nearest_name(symbol, names) {
            _ if exists.contains(symbol) => {
                format!("{symbol:?} (its rows are outside source.from, source.to or source.where)")
            }
            Some(name) => format!("{symbol:?} (did you mean {name:?}?)"),
            None => format!("{symbol:?}"),
        }
    };
    let mut listed: Vec<String> = absent.iter().take(LISTED).map(describe).collect();
    if absent.len() > LISTED {
        listed.push(format!("{} more", absent.len() - LISTED));
    }
    (!listed.is_empty()).then(|| format!("{place} has none of {}", listed.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(known: &[&str], expected: Option<&str>) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let settings =
            SourceSettings { symbols: owned(&["AAPL", "MSTF"]), ..SourceSettings::default() };
        let filter = RowFilter::new(&settings).unwrap();
        let found = absent_symbols(&filter, "t.csv", &owned(&["AAPL"]), &owned(known));
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn an_absent_symbol_is_listed_with_what_may_have_been_meant() {
        check(&["MSFT", "X"], Some("t.csv has none of \"MSTF\" (did you mean \"MSFT\"?)"));
        check(&[], Some("t.csv has none of \"MSTF\""));
        let outside = "its rows are outside source.from, source.to or source.where";
        check(&["MSFT", "MSTF"], Some(&format!("t.csv has none of \"MSTF\" ({outside})")));
    }

    #[test]
    fn long_lists_are_cut() {
        let notes =
            RowWarnings::new(None, (0..LISTED + 5).map(|n| format!("column {n}")).collect());
        assert_eq!(notes.lines.len(), LISTED + 1);
        assert!(notes.lines[LISTED].starts_with("5 more columns"), "{:?}", notes.lines);
    }
}
