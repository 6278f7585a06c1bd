//! A small plan for the unit tests.

use millstream_data::{
    ColumnScaling, DataSchema, PanelSchema, Plan, Scaling, TimeKind, WindowCounts,
};
use std::sync::Arc;

/// A plan for batches of 4, with these numbers of training, validation and test windows.
pub(crate) fn plan(epochs: u32, [train, validation, test]: [u64; 3]) -> Plan {
    let column = |name: &str| ColumnScaling::affine(name, 1.0, 2.0, 3.0);
    let windows = WindowCounts { train, validation, test, ..WindowCounts::default() };
    let schema = DataSchema {
        series_column: Some("symbol".into()),
        time_column: "day".into(),
        features: vec!["x".into()],
        targets: vec!["y".into()],
        lookback: 2,
        min_rows: 2,
        fingerprint: "f".into(),
        ..DataSchema::default()
    };
    let scaling = Scaling {
        method: "zscore".into(),
        features: vec![column("x")],
        targets: vec![column("y")],
        ..Scaling::default()
    };
    let panel = PanelSchema {
        series_column: Some("symbol".into()),
        time_column: "day".into(),
        time_kind: TimeKind::Integer,
        columns: vec!["x".into(), "y".into()],
        kinds: Vec::new(),
        inputs: 1,
        series: vec!["a".into(), "b".into(), "c".into()],
        fingerprint: "f".into(),
    };
    Plan::new(schema, scaling, Arc::new(panel), 4).to_learn_from(windows, epochs)
}
