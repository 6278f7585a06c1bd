//! Small random panels, and what the tests share to cut them up.

use millstream_stage::{Panel, PanelSchema, Shard, TimeKind};
use proptest::prelude::*;
use std::sync::Arc;

/// A panel as plain rows: per series its (time, values) rows.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) width: usize,
    pub(crate) series: Vec<Vec<(i64, Vec<f32>)>>,
}

impl Table {
    /// The panel of this table, cut into shards of `rows` rows wherever that falls.
    pub(crate) fn panel(&self, rows: usize) -> Panel {
        let schema = PanelSchema {
            series_column: Some("symbol".into()),
            time_column: "t".into(),
            time_kind: TimeKind::Integer,
            columns: (0..self.width).map(|i| format!("c{i}")).collect(),
            inputs: self.width,
            series: (0..self.series.len()).map(|i| format!("s{i}")).collect(),
            fingerprint: "test".into(),
        };
        let all: Vec<(u32, i64, &[f32])> = self
            .series
            .iter()
            .enumerate()
            .flat_map(|(code, rows)| rows.iter().map(move |(t, v)| (code as u32, *t, &v[..])))
            .collect();
        let shards = all
            .chunks(rows)
            .map(|rows| {
                let codes = rows.iter().map(|r| r.0).collect();
                let times = rows.iter().map(|r| r.1).collect();
                Shard::new(
                    codes,
                    times,
                    rows.iter().flat_map(|r| r.2).copied().collect(),
                    self.width,
                )
            })
            .collect();
        Panel::new(Arc::new(schema), shards).expect("a sorted table")
    }
}

/// A value that is sometimes missing and often far from zero.
fn value() -> impl Strategy<Value = f32> {
    prop_oneof![1 => Just(f32::NAN), 9 => -100.0f32..100.0]
}

/// A table of 1 to 5 series with 0 to 40 rows at increasing, gappy times.
pub(crate) fn table() -> impl Strategy<Value = Table> {
    (1usize..4).prop_flat_map(|width| {
        let row = (1i64..4, prop::collection::vec(value(), width));
        let series = (0i64..6, prop::collection::vec(row, 0..40)).prop_map(|(start, rows)| {
            let mut time = start;
            rows.into_iter()
                .map(|(step, values)| {
                    time += step;
                    (time, values)
                })
                .collect::<Vec<_>>()
        });
        prop::collection::vec(series, 1..6).prop_map(move |series| Table { width, series })
    })
}
