//! A small plan for the unit tests.

use millstream_stage::{
    ColumnScaling, DataSchema, PanelSchema, Plan, Scaling, TimeKind, WindowCounts,
};
use std::sync::Arc;

/// A plan for batches of 4, with these numbers of training, validation and test windows.
pub(crate) fn plan(epochs: u32, [train, validation, test]: [u64; 3]) -> Plan {
    let column =
        |name: &str| ColumnScaling { name: name.into(), offset: 1.0, scale: 2.0, mean: 3.0 };
    Plan {
        schema: DataSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            time_kind: TimeKind::Integer,
            features: vec!["x".into()],
            targets: vec!["y".into()],
            lookback: 2,
            horizon: 1,
            test_start: 0,
            fingerprint: "f".into(),
        },
        scaling: Scaling {
            method: "zscore".into(),
            features: vec![column("x")],
            targets: vec![column("y")],
        },
        panel: Arc::new(PanelSchema {
            series_column: Some("symbol".into()),
            time_column: "day".into(),
            time_kind: TimeKind::Integer,
            columns: vec!["x".into(), "y".into()],
            inputs: 1,
            series: vec!["a".into(), "b".into(), "c".into()],
            fingerprint: "f".into(),
        }),
        windows: WindowCounts { train, validation, test, ..WindowCounts::default() },
        batch_size: 4,
        epochs,
        drop_last: false,
        predict: 0,
    }
}
