//! The panel that everybody works on: a market's daily rows, made from nothing but their numbers.

use crate::harness::{Failure, arguments::Arguments};
use millstream_data::{Panel, PanelSchema, Shard, SplitMix64, TimeKind};
use millstream_normalize::{FitSettings, Split, SplitSettings};
use std::sync::Arc;

/// How much is worked on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) series: usize,
    /// Batches filled for one figure.
    pub(crate) batches: u64,
    pub(crate) rounds: usize,
}

impl Size {
    /// A million rows, or still three times what the caches hold. Many short rounds beside the
    /// floors: what disturbs then disturbs both sides alike. A peer takes seconds to start.
    pub(crate) fn of(arguments: &Arguments) -> Size {
        match (arguments.quick, &arguments.peers) {
            (false, None) => Size { series: 1000, batches: 100, rounds: 60 },
            (true, None) => Size { series: 250, batches: 50, rounds: 12 },
            (false, Some(_)) => Size { series: 1000, batches: 200, rounds: 7 },
            (true, Some(_)) => Size { series: 250, batches: 100, rounds: 1 },
        }
    }
}

/// Rows of a series.
const ROWS: usize = 1000;

/// Columns, all of them inputs.
pub(crate) const FEATURES: usize = 105;

/// Windows of a batch.
pub(crate) const BATCH: usize = 256;

/// The column that is forecast.
const TARGET: &str = "close_pct";

/// Columns in units of money, right after the target.
pub(crate) const PRICES: [&str; 5] = ["open", "high", "low", "close", "vwap"];

/// Of 200 values, one is missing.
const MISSING: u64 = 200;

/// The panel.
pub(crate) fn panel(size: Size) -> Result<Panel, Failure> {
    let features = (1..).map(|i| format!("f{i:03}"));
    let named = [TARGET].into_iter().chain(PRICES).map(str::to_owned);
    let schema = PanelSchema {
        series_column: Some("symbol".into()),
        time_column: "trade_date".into(),
        time_kind: TimeKind::Integer,
        columns: named.chain(features).take(FEATURES).collect(),
        kinds: Vec::new(),
        inputs: FEATURES,
        series: (0..size.series).map(|i| format!("{i:06}")).collect(),
        fingerprint: String::new(),
    };
    let rows = 0..size.series * ROWS;
    let codes = rows.clone().map(|row| (row / ROWS) as u32).collect();
    let times = rows.clone().map(|row| (row % ROWS) as i64).collect();
    let values = rows.flat_map(|row| (0..FEATURES).map(move |column| value(row, column))).collect();
    Ok(Panel::new(Arc::new(schema), vec![Shard::new(codes, times, values, FEATURES)])?)
}

fn value(row: usize, column: usize) -> f32 {
    let cell = (row * FEATURES + column) as u64;
    let bits = SplitMix64::new(cell.wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits();
    if bits.is_multiple_of(MISSING) {
        return f32::NAN;
    }
    // The sum of two is a little more like what markets do than one.
    let part = |bits: u64| (bits & 0xffff) as f32 / 65_536.0 - 0.5;
    let noise = part(bits >> 32) + part(bits >> 48);
    match column {
        0 => noise / 10.0,
        1..=5 => (20 + row / ROWS) as f32 * (1.0 + noise / 4.0),
        _ => (column % 7) as f32 + noise * (1 + column % 11) as f32,
    }
}

/// A split that learns from every row: what is measured is a pass over all of them.
pub(crate) fn split(panel: &Panel) -> Result<Split, Failure> {
    let settings = SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() };
    Ok(Split::new(panel, &settings)?)
}

/// Windows of 60 rows, z-scores, a missing input becomes zero: the defaults.
pub(crate) fn settings() -> FitSettings {
    let mut settings = FitSettings::default();
    settings.target.columns = vec![TARGET.to_owned()];
    settings
}
