//! Why a panel cannot be turned into batches.

use millstream_stage::PanelError;
use std::error::Error;

/// Why a panel cannot be turned into batches. Every variant gives the numbers and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NormalizeError {
    /// No row at all.
    #[error("the panel has no rows; check the source's filters")]
    EmptyPanel,
    /// A target column is not in the panel.
    #[error("target.columns names {column:?}, which the data does not have; it has {}", list(.columns))]
    UnknownTarget {
        /// The column asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// No target column was named.
    #[error("target.columns is empty; name at least one column to forecast")]
    NoTarget,
    /// A model expects a column that the panel does not have.
    #[error("the model was trained on column {column:?}, which the data does not have; it has {}", list(.columns))]
    MissingFeature {
        /// The column the model expects.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// Every series is too short.
    #[error(
        "no series is long enough: window.lookback {lookback} and window.horizon {horizon} need {} rows, the longest has {longest}; {}",
        lookback + horizon, shorter(*longest, *horizon)
    )]
    SeriesTooShort {
        /// Rows the model sees.
        lookback: usize,
        /// Steps forecast.
        horizon: usize,
        /// Rows of the longest series.
        longest: usize,
    },
    /// A fraction is out of range.
    #[error(
        "split.{key} is {value}; use a share from 0 to 1, with train above 0 and train + validation at most 1"
    )]
    Share {
        /// Key in `[split]`.
        key: &'static str,
        /// What it is set to.
        value: f64,
    },
    /// A border is not a time.
    #[error("split.{key} is {value:?}, which is not a time; write it like {example:?}")]
    BorderFormat {
        /// Key in `[split]`.
        key: &'static str,
        /// What it is set to.
        value: String,
        /// A time of this data.
        example: String,
    },
    /// Borders are out of order or outside the data.
    #[error("split.{key} is {value}, but it must lie after {after} and the data ends at {end}")]
    BorderOrder {
        /// Key in `[split]`.
        key: &'static str,
        /// The border.
        value: String,
        /// What it must come after.
        after: String,
        /// Last time of the data.
        end: String,
    },
    /// No window to learn from.
    #[error(
        "no window to learn from: training ends at {train_end}, and before that no series has {needed} rows in a row with a known target ({missing_target} windows miss their target); move split.train (or train_end) later or shorten window.lookback"
    )]
    EmptyTrain {
        /// Where training ends.
        train_end: String,
        /// Rows a window needs.
        needed: usize,
        /// Windows left out because a target is missing.
        missing_target: u64,
    },
    /// The batch slots could not be made.
    #[error("cannot make the batch slots")]
    Slots(#[source] Box<dyn Error + Send + Sync>),
    /// Record batches that are no panel.
    #[error("not a panel")]
    Panel(#[source] PanelError),
}

fn list(columns: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = columns.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match columns.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

fn shorter(longest: usize, horizon: usize) -> String {
    match longest.checked_sub(horizon) {
        Some(rows) if rows > 0 => format!("set window.lookback to {rows} or less"),
        _ => format!("set window.horizon below {longest} and shorten window.lookback"),
    }
}
