//! [`Refresh`]: when a cached panel is read anew, and what is said when it is not.
//!
//! A cached panel of files is always that of the files as they are now: their state is in its key.
//! What a database holds can change under the same key, so the server is asked.

use crate::{LoadError, cache::Cached, error::chain, progress::ProgressReporter, request::Request};
use millstream_data::TimeKind;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When to read a database anew that is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// Never, but warn when it holds other rows now.
    #[default]
    Never,
    /// When it holds other rows now, or cannot say whether it does: a view, a query, rows that a
    /// function, another table or a policy chooses.
    IfNewer,
    /// In any case, files too.
    Always,
}

/// What was read of a database, kept with the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReadRows {
    pub(crate) rows: u64,
    /// The latest time.
    pub(crate) newest: i64,
    pub(crate) kind: TimeKind,
    /// What the source noted of it just before, in its own form.
    #[serde(rename = "look")]
    pub(crate) state: serde_json::Value,
}

/// What became of a table since its rows were read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "files are always the same"))]
pub(crate) enum Freshness {
    Same,
    /// As many rows up to the same time; whether some were changed in place nobody can tell.
    AsMany,
    /// It has other rows, and how that shows.
    Changed(String),
    /// The settings mean something else now, and what.
    Elsewhere(String),
    /// The server could not say in time.
    Unknown,
}

/// Whether to read the source anew. Rows that are used though there may be others are warned of.
///
/// A server that does not answer is no reason not to use what is there.
///
/// # Errors
/// [`LoadError::Interrupted`] alone, of a source that is there.
pub(crate) fn wants_anew(
    request: &Request<'_>,
    cached: &Cached,
    refresh: Refresh,
    reporter: &mut ProgressReporter<'_>,
) -> Result<bool, LoadError> {
    let Some(read) = &cached.read else { return Ok(false) };
    let place = request.place();
    let warn = |what: &str| {
        let age = spell(cached.age());
        request
            .warnings
            .warn(format!("the cached rows of {place} were read {age} ago, and {what}"));
    };
    Ok(match request.settings.kind.source()?.freshness(request, read, reporter) {
        Ok(Freshness::Same) => false,
        Ok(Freshness::Elsewhere(what)) => {
            warn(&format!("{what}; they are read anew"));
            true
        }
        Ok(Freshness::Changed(_) | Freshness::AsMany) if refresh == Refresh::IfNewer => true,
        Ok(Freshness::AsMany) => {
            warn(
                "there are as many now, but whether they are the same or some were changed in place is not known of a view, a query, a source.where with a SELECT or a function, a table with row-level security, or a server that keeps no statistics; --refresh reads them anew",
            );
            false
        }
        Ok(Freshness::Changed(what)) => {
            warn(&format!("{what}; --refresh reads them anew"));
            false
        }
        Ok(Freshness::Unknown) => {
            warn(
                "to find out whether there are newer ones would take too long; --refresh reads them anew",
            );
            false
        }
        Err(LoadError::Interrupted) => return Err(LoadError::Interrupted),
        Err(error) => {
            warn(&unanswered(&error));
            false
        }
    })
}

fn unanswered(error: &LoadError) -> String {
    format!(
        "whether there are newer ones is not known, since the server could not be asked: {}",
        chain(error)
    )
}

/// A time as people say it.
fn spell(age: Duration) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let seconds = age.as_secs();
    let (size, unit) =
        UNITS.into_iter().find(|(size, _)| seconds >= *size).unwrap_or((1, "second"));
    let count = seconds / size;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_spelled_in_their_largest_unit() {
        let check = |seconds, expected| assert_eq!(spell(Duration::from_secs(seconds)), expected);
        check(0, "0 seconds");
        check(61, "1 minute");
        check(7_300, "2 hours");
        check(3 * 86_400 + 5, "3 days");
    }
}
