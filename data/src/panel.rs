//! The panel: the data set once, row-major, sorted by series then time.
//!
//! A panel is a list of shards. A shard is an Arrow record batch of three columns: the series as
//! a `UInt32` code, the time as `Int64`, and one `FixedSizeList<Float32, F>` with the row's values
//! (Arrow's fixed-shape tensor). Rows of a series are adjacent and may continue in the next shard.
//!
//! This is a typed view and the check of its invariants; reading and writing panels is the
//! loader's business, scaling them is normalize's.

use crate::{shard::Shard, time::TimeKind};
use arrow::array::RecordBatch;
use millstream_stage::Item;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What the numbers of a value column were in the source. The same column read from a table in which
/// it is something else gives numbers that mean something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Numbers of any width.
    Number,
    /// True and false, as 1 and 0.
    Boolean,
    /// Days, timestamps or times of day, counted in units of their own.
    Time,
}

/// What the columns of a panel are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PanelSchema {
    /// The column that named the series; `None` when the table is one series.
    pub series_column: Option<String>,
    /// The column that held the time.
    pub time_column: String,
    /// How to read the times.
    pub time_kind: TimeKind,
    /// Names of the value columns, in the order of the values in a row.
    pub columns: Vec<String>,
    /// What each of them was in the source; empty where that is not known.
    #[serde(default)]
    pub kinds: Vec<ColumnKind>,
    /// The first `inputs` columns are what a model sees; the rest are there for the targets only.
    pub inputs: usize,
    /// Names of the series; a series code is a position in this list.
    pub series: Vec<String>,
    /// Identifies the data: two panels with the same fingerprint hold the same rows.
    pub fingerprint: String,
}

/// The rows of one series in one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Series code.
    pub series: u32,
    /// Position of the shard in the panel.
    pub shard: usize,
    /// First row within the shard.
    pub start: usize,
    /// Number of rows.
    pub rows: usize,
}

/// The data set.
#[derive(Debug, Clone)]
pub struct Panel {
    schema: Arc<PanelSchema>,
    shards: Vec<Shard>,
    pieces: Vec<Piece>,
}

/// Why record batches are not a panel.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PanelError {
    /// A record batch does not have the three columns of a panel.
    #[error(
        "shard {shard} is not a panel shard: expected columns series (UInt32), time (Int64) and values (FixedSizeList<Float32, {width}>) without nulls, found {found}"
    )]
    Shape {
        /// Position of the shard.
        shard: usize,
        /// Values a row should have.
        width: usize,
        /// What the batch has.
        found: String,
    },
    /// A code has no name.
    #[error(
        "shard {shard}, row {row}: series code {code} has no name; the panel names {series} series"
    )]
    UnknownSeries {
        /// Position of the shard.
        shard: usize,
        /// Row within the shard.
        row: usize,
        /// The code.
        code: u32,
        /// How many names there are.
        series: usize,
    },
    /// Rows are not sorted by series.
    #[error(
        "shard {shard}, row {row}: series {series:?} comes after a series with a higher code; sort by series, then time"
    )]
    Unsorted {
        /// Position of the shard.
        shard: usize,
        /// Row within the shard.
        row: usize,
        /// Name of the series.
        series: String,
    },
    /// Two rows of a series have the same time, or the time goes back.
    #[error(
        "series {series:?} has two rows at {time} or is not sorted by time; a series needs one row per time"
    )]
    Times {
        /// Name of the series.
        series: String,
        /// The time that does not come after the one before it.
        time: String,
    },
}

impl PanelSchema {
    /// Values in a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// A time as people write it.
    #[must_use]
    pub fn format_time(&self, time: i64) -> String {
        self.time_kind.format(time)
    }
}

impl Panel {
    /// Checks shards and makes them a panel.
    ///
    /// # Errors
    /// When a code has no name or the rows are not strictly sorted by series, then time.
    pub fn new(schema: Arc<PanelSchema>, shards: Vec<Shard>) -> Result<Self, PanelError> {
        let pieces = pieces(&schema, &shards)?;
        Ok(Panel { schema, shards, pieces })
    }

    /// Checks record batches and makes them a panel, sharing their memory.
    ///
    /// # Errors
    /// When a batch has other columns than a shard, and as [`Panel::new`].
    pub fn from_record_batches(
        schema: Arc<PanelSchema>,
        batches: &[RecordBatch],
    ) -> Result<Self, PanelError> {
        let width = schema.width();
        let shards = batches
            .iter()
            .enumerate()
            .map(|(i, batch)| Shard::from_record_batch(batch, i, width))
            .collect::<Result<_, _>>()?;
        Panel::new(schema, shards)
    }

    /// What the columns are.
    #[must_use]
    pub fn schema(&self) -> &Arc<PanelSchema> {
        &self.schema
    }

    /// The shards, in order.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Where each series lies; the pieces of one series are adjacent and in time order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Number of rows.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.shards.iter().map(Shard::rows).sum()
    }
}

impl Item for Panel {
    fn rows(&self) -> u64 {
        self.row_count() as u64
    }

    fn bytes(&self) -> u64 {
        self.rows() * (4 + 8 + 4 * self.schema.width() as u64)
    }
}

fn pieces(schema: &PanelSchema, shards: &[Shard]) -> Result<Vec<Piece>, PanelError> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(schema.series.len());
    let mut last: Option<(u32, i64)> = None;
    for (shard, columns) in shards.iter().enumerate() {
        let rows = columns.codes().iter().copied().zip(columns.times().iter().copied());
        for (row, (code, time)) in rows.enumerate() {
            match last {
                Some((before, earlier)) if before == code => {
                    if time <= earlier {
                        let series = schema.series[code as usize].clone();
                        return Err(PanelError::Times { series, time: schema.format_time(time) });
                    }
                }
                _ => {
                    let Some(series) = schema.series.get(code as usize) else {
                        let series = schema.series.len();
                        return Err(PanelError::UnknownSeries { shard, row, code, series });
                    };
                    if last.is_some_and(|(before, _)| before > code) {
                        return Err(PanelError::Unsorted { shard, row, series: series.clone() });
                    }
                }
            }
            last = Some((code, time));
            match pieces.last_mut() {
                Some(piece) if piece.series == code && piece.shard == shard => piece.rows += 1,
                _ => pieces.push(Piece { series: code, shard, start: row, rows: 1 }),
            }
        }
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Arc<PanelSchema> {
        Arc::new(PanelSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            time_kind: TimeKind::Integer,
            columns: vec!["a".into(), "b".into()],
            kinds: Vec::new(),
            inputs: 2,
            series: vec!["x".into(), "y".into()],
            fingerprint: String::new(),
        })
    }

    fn shard(rows: &[(u32, i64)]) -> Shard {
        let values = (0..rows.len() * 2).map(|v| v as f32).collect();
        let (codes, times) = rows.iter().copied().unzip();
        Shard::new(codes, times, values, 2)
    }

    #[test]
    fn a_series_may_continue_in_the_next_shard() {
        let panel = Panel::new(schema(), vec![shard(&[(0, 1), (1, 1)]), shard(&[(1, 2)])]).unwrap();
        let found: Vec<_> =
            panel.pieces().iter().map(|p| (p.series, p.shard, p.start, p.rows)).collect();
        assert_eq!(found, [(0, 0, 0, 1), (1, 0, 1, 1), (1, 1, 0, 1)]);
        assert_eq!((panel.row_count(), panel.bytes()), (3, 3 * 20));
    }

    #[test]
    fn record_batches_round_trip_even_when_sliced() {
        let batch = shard(&[(0, 1), (0, 2), (1, 1)]).to_record_batch(2).slice(1, 2);
        let panel = Panel::from_record_batches(schema(), &[batch]).unwrap();
        assert_eq!(panel.shards()[0].values(), [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(panel.shards()[0].times(), [2, 1]);
    }

    fn check_refused(rows: &[(u32, i64)], expected: &str) {
        let error = Panel::new(schema(), vec![shard(rows)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn broken_orders_are_refused_with_the_place() {
        check_refused(&[(0, 5), (0, 5)], "series \"x\" has two rows at 5");
        check_refused(&[(1, 1), (0, 1)], "row 1: series \"x\" comes after");
        check_refused(&[(0, 1), (9, 1)], "series code 9 has no name");
    }

    #[test]
    fn other_record_batches_are_refused() {
        let batch = shard(&[(0, 1)]).to_record_batch(2).project(&[0, 1]).unwrap();
        let error = Panel::from_record_batches(schema(), &[batch]).unwrap_err();
        assert!(matches!(error, PanelError::Shape { shard: 0, width: 2, .. }), "{error}");
    }
}
