//! Small random panels with everything that goes wrong in real ones, as plain rows.

use millstream_data::{Panel, PanelSchema, Shard, SplitMix64, TimeKind};
use proptest::prelude::*;
use std::sync::Arc;

/// A panel as plain rows: per series its (time, values) rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    /// The first so many columns are inputs.
    pub(crate) inputs: usize,
    pub(crate) series: Vec<Vec<(i64, Vec<f32>)>>,
}

/// The last column of a [`table()`]: small integers, for the segments of a window.
pub(crate) const SEGMENT: &str = "segment";

impl Table {
    /// Columns `c0`, `c1`, …, all of them inputs.
    pub(crate) fn new(width: usize, series: Vec<Vec<(i64, Vec<f32>)>>) -> Self {
        Table { columns: (0..width).map(|i| format!("c{i}")).collect(), inputs: width, series }
    }

    /// The panel of this table, cut into shards of so many rows, over and over, wherever that
    /// falls. An empty shard is a shard too.
    pub(crate) fn panel(&self, cuts: &[usize]) -> Panel {
        let schema = PanelSchema {
            series_column: Some("symbol".into()),
            time_column: "t".into(),
            time_kind: TimeKind::Integer,
            columns: self.columns.clone(),
            kinds: Vec::new(),
            inputs: self.inputs,
            series: (0..self.series.len()).map(|i| format!("s{i}")).collect(),
            fingerprint: "test".into(),
        };
        self.panel_with(schema, cuts)
    }

    /// The rows of this table under another schema.
    pub(crate) fn panel_with(&self, schema: PanelSchema, cuts: &[usize]) -> Panel {
        assert!(cuts.iter().any(|rows| *rows > 0), "shards of no rows never end");
        let all: Vec<(u32, i64, &[f32])> = self
            .series
            .iter()
            .enumerate()
            .flat_map(|(code, rows)| rows.iter().map(move |(t, v)| (code as u32, *t, &v[..])))
            .collect();
        let (mut shards, mut rest) = (Vec::new(), &all[..]);
        for &rows in cuts.iter().cycle() {
            let (rows, others) = rest.split_at(rows.min(rest.len()));
            let codes = rows.iter().map(|r| r.0).collect();
            let times = rows.iter().map(|r| r.1).collect();
            let values = rows.iter().flat_map(|r| r.2).copied().collect();
            shards.push(Shard::new(codes, times, values, self.columns.len()));
            rest = others;
            if rest.is_empty() {
                break;
            }
        }
        Panel::new(Arc::new(schema), shards).expect("a sorted table")
    }

    /// Where the column of this name stands.
    pub(crate) fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).unwrap()
    }

    /// First row of each series within the panel.
    pub(crate) fn starts(&self) -> Vec<usize> {
        let mut next = 0;
        let start = |rows: &Vec<_>| {
            next += rows.len();
            next - rows.len()
        };
        self.series.iter().map(start).collect()
    }

    /// All times there are, in order.
    pub(crate) fn times(&self) -> Vec<i64> {
        let mut times: Vec<i64> = self.series.iter().flatten().map(|row| row.0).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// The same rows with other values wherever `chosen` says so of (series, time). Segments stay,
    /// for not every number is one.
    pub(crate) fn disturbed(&self, seed: u64, chosen: impl Fn(usize, i64) -> bool) -> Table {
        const BAD: [f32; 4] = [f32::NAN, f32::INFINITY, 0.0, -1e6];
        let mut table = self.clone();
        let segment = self.columns.iter().position(|name| name == SEGMENT);
        for (code, rows) in table.series.iter_mut().enumerate() {
            for (time, values) in rows.iter_mut().filter(|row| chosen(code, row.0)) {
                for (at, value) in
                    values.iter_mut().enumerate().filter(|(i, _)| Some(*i) != segment)
                {
                    let dice = hash(&[seed, code as u64, *time as u64, at as u64]);
                    *value = match dice % 8 {
                        i @ 0..4 => BAD[i as usize],
                        4 => 1e6,
                        _ => (dice >> 8) as f32 % 1000.0 - 500.25,
                    };
                }
            }
        }
        table
    }
}

/// SplitMix64 over several numbers: a cell keeps its value while a failing case is made smaller.
pub(crate) fn hash(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0x9e37_79b9_7f4a_7c15, |state, number| SplitMix64::new(state ^ number).bits())
}

/// What the values of a column are like.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// Anything within ±100.
    Wide,
    /// Well above zero, as prices are.
    Price,
    /// Few different ones: ties and zeros.
    Coarse,
    Constant,
    /// Never there.
    Empty,
}

/// A column and how many percent of it are missing.
fn content() -> impl Strategy<Value = (Content, u64)> {
    let content = prop_oneof![
        5 => Just(Content::Wide),
        4 => Just(Content::Price),
        4 => Just(Content::Coarse),
        1 => Just(Content::Constant),
        1 => Just(Content::Empty),
    ];
    (content, prop_oneof![3 => Just(0), 3 => Just(8), 1 => Just(40)])
}

fn value((content, missing): (Content, u64), dice: u64) -> f32 {
    if dice % 100 < missing {
        return [f32::NAN, f32::NAN, f32::INFINITY, f32::NEG_INFINITY][(dice >> 32) as usize % 4];
    }
    let share = (dice >> 40) as f32 / (1u64 << 24) as f32;
    match content {
        Content::Wide => share * 200.0 - 100.0,
        Content::Price => 10.0 + share * 3.0,
        Content::Coarse => (share * 5.0).floor() - 2.0,
        Content::Constant => 5.1,
        Content::Empty => f32::NAN,
    }
}

/// A table of 1 to 5 series with 0 to 40 rows at increasing, gappy times that mostly overlap, with
/// 1 to 4 columns of which the last may be no input, and segments, which may be one.
pub(crate) fn table() -> impl Strategy<Value = Table> {
    let series = prop::collection::vec((0i64..6, 0usize..40), 1..6);
    let columns = prop::collection::vec(content(), 1..5);
    (columns, series, 0usize..3, any::<u64>()).prop_map(|(contents, lengths, more, seed)| {
        let width = contents.len();
        let row = |code: usize, at: usize, time: i64| {
            let key = |column: usize| hash(&[seed, code as u64, at as u64, column as u64]);
            let mut values: Vec<f32> =
                contents.iter().enumerate().map(|(i, content)| value(*content, key(i))).collect();
            values.push((key(width) % 7) as f32);
            (time, values)
        };
        let series = lengths.iter().enumerate().map(|(code, (start, rows))| {
            let mut time = *start;
            let rows = (0..*rows).map(|at| {
                // One step in eight leaves times out.
                let dice = hash(&[seed, code as u64, at as u64, 99]);
                time += if dice.is_multiple_of(8) { 2 + (dice >> 8) as i64 % 2 } else { 1 };
                row(code, at, time)
            });
            rows.collect()
        });
        let mut columns: Vec<String> = (0..width).map(|i| format!("c{i}")).collect();
        columns.push(SEGMENT.to_owned());
        let inputs = (width + more - 1).max(1);
        Table { columns, inputs, series: series.collect() }
    })
}

/// Shard sizes.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<usize>> {
    let cut = prop_oneof![1 => Just(0usize), 6 => 1usize..40];
    prop::collection::vec(cut, 1..4).prop_filter("some rows", |cuts| cuts.iter().sum::<usize>() > 0)
}
