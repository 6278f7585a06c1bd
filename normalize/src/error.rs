//! Why a panel cannot be turned into batches.

use crate::scalers::ScaleMethod;
use millstream_data::{Bytes, NameError, SameName, column_hint, list_names};
use millstream_stage::NoThreads;
use std::error::Error;

/// Why a panel cannot be turned into batches. Every variant gives the numbers and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NormalizeError {
    /// No row at all.
    #[error("the panel has no rows; check the source's filters")]
    EmptyPanel,
    /// A target column is not in the panel.
    #[error("target.columns names {column:?}, which the data does not have; {}", column_hint(.column, .columns))]
    UnknownTarget {
        /// The column asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A name of a target is none.
    #[error("target.columns: {0}")]
    TargetName(NameError),
    /// No target column was named.
    #[error("target.columns is empty; name at least one column to forecast")]
    NoTarget,
    /// A target has no value at all.
    #[error(
        "target {column:?} has no value in any of the {rows} rows; {}",
        if .columns.is_empty() { "no column has one".to_owned() } else { format!("columns with values: {}", list_names(.columns, SHOWN)) }
    )]
    EmptyTarget {
        /// The column.
        column: String,
        /// Rows looked at.
        rows: usize,
        /// The columns that have values.
        columns: Vec<String>,
    },
    /// A model expects a column that the panel does not have.
    #[error("the model was trained on column {column:?}, which the data does not have; {}", column_hint(.column, .columns))]
    MissingFeature {
        /// The column the model expects.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// No input column is left.
    #[error("no input column is left beside the segment column {segment:?}; widen source.features")]
    NoFeature {
        /// The segment column.
        segment: String,
    },
    /// The segment column is not in the panel.
    #[error("window.segment is {column:?}, which the data does not have; {}", column_hint(.column, .columns))]
    UnknownSegment {
        /// The column asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// The reference column is not in the panel.
    #[error("scale.reference is {column:?}, which is none of \"none\", \"first\", \"last\" and no column of the data; {}", column_hint(.column, .columns))]
    UnknownReference {
        /// The column asked for.
        column: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A value of the segment column is not a small integer.
    #[error(
        "window.segment column {column:?} is {value} for series {series:?} at {time}; segments are whole numbers from 0 to 65535"
    )]
    BadSegment {
        /// The column.
        column: String,
        /// Its value.
        value: f32,
        /// Where.
        series: String,
        /// When.
        time: String,
    },
    /// A glob cannot be read.
    #[error("scale.groups entry {group}: {glob:?} is not a glob: {reason}")]
    Glob {
        /// Position of the group, from 1.
        group: usize,
        /// What it says.
        glob: String,
        /// Why not.
        reason: &'static str,
    },
    /// A group names no column.
    #[error("scale.groups entry {group} names {glob:?}, which matches no column; {}", column_hint(.glob, .columns))]
    EmptyGroup {
        /// Position of the group, from 1.
        group: usize,
        /// What it names.
        glob: String,
        /// The columns there are.
        columns: Vec<String>,
    },
    /// A reference with a method that is not affine.
    #[error(
        "column {column:?} has a scale.reference and method {method:?}; relative values are scaled by {}",
        ScaleMethod::straight_names()
    )]
    CurvedReference {
        /// The column.
        column: String,
        /// The method.
        method: &'static str,
    },
    /// A clip that is not above zero.
    #[error("scale.clip is {value}; use a number above 0, or 0 to switch it off")]
    Clip {
        /// What it is set to.
        value: f64,
    },
    /// A dead band that is no share.
    #[error("target.dead_band is {value}; use 0 or a share above it, e.g. 0.001")]
    DeadBand {
        /// What it is set to.
        value: f64,
    },
    /// Two settings exclude each other.
    #[error("{first} does not go with {second}; {instead}")]
    Conflict {
        /// One of them.
        first: String,
        /// The other.
        second: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// Every series is too short.
    #[error(
        "no series is long enough: window.lookback {lookback}{} and window.horizon {horizon} need {} rows, the longest has {}; {}",
        beside(*delay), lookback.saturating_add(*horizon).saturating_add(*delay), rows(*longest),
        shorter(*longest, *learned, *horizon, *delay)
    )]
    SeriesTooShort {
        /// Rows the model sees at least.
        lookback: usize,
        /// Steps forecast.
        horizon: usize,
        /// Rows between the two.
        delay: usize,
        /// Rows of the longest series.
        longest: usize,
        /// Most rows of a series that are before the end of training.
        learned: usize,
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
    #[error(
        "split.{key} is {value}, but it must lie after {after} and the data ends at {end}; the nearest that works is {nearest}"
    )]
    BorderOrder {
        /// Key in `[split]`.
        key: &'static str,
        /// The border.
        value: String,
        /// What it must come after.
        after: String,
        /// Last time of the data.
        end: String,
        /// The nearest border that works.
        nearest: String,
    },
    /// A fold that is not there.
    #[error("split.fold is {fold}, but there are {folds} folds; use 1 to {folds}")]
    NoSuchFold {
        /// The fold asked for.
        fold: usize,
        /// How many there are.
        folds: usize,
    },
    /// More folds than times to test on.
    #[error(
        "split.folds is {folds}, but split.train and split.validation leave {left} of {times} times to test on; {}",
        if *left == 0 { "use smaller shares".to_owned() } else { format!("use at most {left} folds, or smaller shares") }
    )]
    TooManyFolds {
        /// Folds asked for.
        folds: usize,
        /// Times that are left.
        left: usize,
        /// Distinct times of the data.
        times: usize,
    },
    /// No window to learn from.
    #[error(
        "no window to learn from: {searched} has {needed} rows in a row with a known target ({missing_target} windows miss their target, {missing_input} an input or reference); {hint}"
    )]
    EmptyTrain {
        /// What was looked through: "training ends at …, and before that no series".
        searched: String,
        /// Rows a window needs.
        needed: usize,
        /// Windows left out because a target is missing.
        missing_target: u64,
        /// Windows left out because an input or the reference is missing.
        missing_input: u64,
        /// The nearest choice that works.
        hint: String,
    },
    /// The embargo leaves nothing to judge a model by.
    #[error(
        "split.embargo is {embargo}, which leaves no window to validate or to test with: between the borders lie {validation_times} distinct times to validate and {test_times} to test; set it to {most} or less"
    )]
    Embargo {
        /// Times left out after each border.
        embargo: usize,
        /// Distinct times of the validation part, embargo included.
        validation_times: usize,
        /// Distinct times of the test part, embargo included.
        test_times: usize,
        /// The largest embargo that leaves a window.
        most: usize,
    },
    /// Two columns of the forecasts would have the same name.
    #[error(transparent)]
    ForecastColumns(#[from] SameName),
    /// None of the series to forecast is there.
    #[error(
        "none of the series {} is in the data; it has {}",
        list_names(.asked, SHOWN), list_names(.there, SHOWN)
    )]
    NoSuchSeries {
        /// The series asked for.
        asked: Vec<String>,
        /// The series there are.
        there: Vec<String>,
    },
    /// A checkpoint does not say where a part lies.
    #[error(
        "the model was trained by an older version, which did not keep where its {part} part lies; train it again, or choose the times by --from and --to"
    )]
    PartNotKept {
        /// Which part.
        part: &'static str,
    },
    /// No window is to be forecast.
    #[error(
        "nothing to forecast in {asked}: no window of {lookback} rows ends there; the data goes from {first} to {last}, {short_series} series are too short, {left_out} windows miss an input or reference"
    )]
    NothingToForecast {
        /// The times asked for.
        asked: String,
        /// Rows that a window needs.
        lookback: usize,
        /// First time of the data.
        first: String,
        /// Last time of the data.
        last: String,
        /// Series without a window.
        short_series: u64,
        /// Windows that were left out.
        left_out: u64,
    },
    /// The data is something else than what a model was trained on.
    #[error(
        "the model was trained on data whose {what} {expected}, but in this data it {found}; point source.… at a table of the same form, or train on this one"
    )]
    OtherData {
        /// What differs: "time column \"day\"".
        what: String,
        /// What it was: "holds dates".
        expected: String,
        /// What it is: "holds integers".
        found: String,
    },
    /// A time has more windows than a batch.
    #[error(
        "window.order = \"by_time\" puts whole times in a batch, and {time} has {windows} windows; set train.batch_size to {windows} or more, now {batch_size}"
    )]
    WideTime {
        /// The time with the most windows.
        time: String,
        /// How many it has.
        windows: u64,
        /// Windows of a batch.
        batch_size: usize,
    },
    /// Batches that cannot be shared out.
    #[error(
        "a batch of {batch_size} windows cannot be shared out among {ranks} ranks; use a multiple of {ranks}, and a rank below {ranks} (now {rank})"
    )]
    Ranks {
        /// Windows of a global batch.
        batch_size: usize,
        /// This rank.
        rank: usize,
        /// How many ranks there are.
        ranks: usize,
    },
    /// More than fits in memory.
    #[error("{what} takes {needed} of memory, and {free} are free; {instead}")]
    NoRoom {
        /// What is too large, with the settings that make it so.
        what: String,
        /// What it would take.
        needed: Bytes,
        /// What there is.
        free: Bytes,
        /// What would fit.
        instead: String,
    },
    /// The system does not start the stage's threads.
    #[error("run.normalize_threads: {0}")]
    Threads(#[from] NoThreads),
    /// The batch slots could not be made.
    #[error("cannot make the batch slots")]
    Slots(#[source] Box<dyn Error + Send + Sync>),
}

/// Names that a message lists.
const SHOWN: usize = 12;

fn rows(count: usize) -> String {
    if count == 1 { "1 row".to_owned() } else { count.to_string() }
}

/// The delay, where there is one, among the settings that a window needs rows for.
fn beside(delay: usize) -> String {
    if delay == 0 { String::new() } else { format!(", target.delay {delay}") }
}

/// What to do about series of at most `longest` rows, of which training may see `learned`.
fn shorter(longest: usize, learned: usize, horizon: usize, delay: usize) -> String {
    match learned.saturating_sub(horizon).saturating_sub(delay) {
        0 if longest < 2 => {
            "a window needs one row to look at and one to forecast, of the same series: load more rows, or set source.series to the column that names the series".to_owned()
        }
        0 if learned < 2 => format!(
            "training ends after {}: set split.train_end later or split.train higher, or load more rows",
            rows(learned)
        ),
        0 if delay > 0 => format!(
            "set window.horizon and target.delay below {learned} together, and window.lookback to what they leave of {learned} rows, which is what training may see"
        ),
        0 => format!(
            "set window.horizon below {learned}, and window.lookback to what it leaves of {learned} rows, which is what training may see"
        ),
        rows => format!("set window.lookback to {rows} or less, or window.short to \"pad\""),
    }
}
