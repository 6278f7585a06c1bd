//! Whether forecasts are any good: a table of forecasts and outcomes in, figures out.
//!
//! [`evaluate`] takes any Arrow table in memory; [`Forecasts`] takes it batch by batch, with columns that
//! [`ColumnNames`] may name and a [`History`] of the series for what the table does not say; a
//! [`TableFile`] reads Parquet, CSV and JSON lines. What comes is an [`Evaluation`]: [`Figures`] of all rows, of groups
//! ([`Grouping`]), of folds with their mean and deviation ([`OverFolds`]), beside [naive](Naive) forecasts
//! that know no more than was known when the forecast was made. It serialises as it is shown, and
//! [`Evaluation::to_table`] is a long table to plot.
//!
//! Figures are in the units of the table; where the trainer prints a figure of the same name, it is the same.
//! What is undefined is `None`, never NaN. No model, no database and no libtorch is here.
//!
//! ```
//! use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
//! use millstream_evaluate::{EvaluateSettings, evaluate};
//! use std::sync::Arc;
//!
//! let text = |of: [&str; 4]| Arc::new(StringArray::from(of.to_vec())) as ArrayRef;
//! let numbers = |of: [f64; 4]| Arc::new(Float64Array::from(of.to_vec())) as ArrayRef;
//! let table = RecordBatch::try_from_iter([
//!     ("symbol", text(["A", "B", "C", "D"])),
//!     ("date", text(["2026-11-02"; 4])),
//!     ("prediction", numbers([1.0, 2.0, 3.0, 4.0])),
//!     ("actual", numbers([1.5, 1.0, 3.0, 6.0])),
//! ])?;
//! let found = evaluate(&[table], &EvaluateSettings::default())?;
//! assert_eq!(found.overall.mae, Some(0.875));
//! assert_eq!(found.overall.rank_ic, Some(0.8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod column_names;
mod column_search;
mod columns;
mod correlation;
mod deciles;
mod error;
mod evaluation;
mod figures;
mod forecasts;
mod formats;
mod grouping;
mod history;
mod judge;
mod judged_outcomes;
mod known_values;
mod long_table;
mod references;
mod sections;
mod series;
mod sums;
#[cfg(test)]
mod test_tables;

pub use crate::{
    columns::{ColumnNames, Columns, IntervalColumns, JudgedColumns, QuantileColumn, Role},
    error::EvaluateError,
    evaluation::{
        Decile, DecileOfTime, Deciles, Direction, EvaluateSettings, Evaluation, Group, Grouped,
        Naive, evaluate,
    },
    figures::{Figures, IntervalFigures, OverFolds, QuantileFigures},
    forecasts::Forecasts,
    formats::{TableFile, check_ending},
    grouping::Grouping,
    history::History,
    references::NaiveForecaster,
};
