//! From Arrow record batches to shuffled training batches, with no libtorch and no database.

use arrow::array::RecordBatch;
use millstream_normalize::{
    Filler, Order, Rows, ScaleMethod, Shape, Shuffle, Split, SplitSettings, WindowIndex, fit,
};
use millstream_stage::{BatchSlot, Panel, PanelSchema, Shard, TimeKind};
use std::{error::Error, sync::Arc};

/// Two series of 200 rows: a sine and its slope, as Arrow has them.
fn table() -> RecordBatch {
    let rows = 200;
    let codes = (0..2 * rows).map(|row| u32::from(row >= rows)).collect();
    let times = (0..2 * rows).map(|row| i64::from(row % rows)).collect();
    let values = (0..2 * rows)
        .flat_map(|row| {
            let angle = row as f32 / 9.0;
            [angle.sin(), angle.cos()]
        })
        .collect();
    Shard::new(codes, times, values, 2).to_record_batch(2)
}

fn main() -> Result<(), Box<dyn Error>> {
    let schema = PanelSchema {
        series_column: Some("sensor".into()),
        time_column: "second".into(),
        time_kind: TimeKind::Integer,
        columns: vec!["level".into(), "slope".into()],
        inputs: 2,
        series: vec!["north".into(), "south".into()],
        fingerprint: String::new(),
    };
    let panel = Panel::from_record_batches(Arc::new(schema), &[table()])?;

    let split = Split::new(&panel, &SplitSettings::default())?;
    let columns = fit(&panel, &split.train(), ScaleMethod::Zscore);
    let rows = Rows::new(&panel, &columns, &columns[..1])?;
    let shape = Shape { lookback: 24, horizon: 3, stride: 1 };
    let train = WindowIndex::labelled(&rows, shape, split.train_span());
    println!("{} training windows", train.len());

    let mut filler = Filler::new(shape, 64);
    let mut slot = BatchSlot::on_heap(filler.layout(&rows, 64));
    let order = Order::Shuffled(Shuffle::new(train.len(), 42, 1));
    for batch in 0..train.len().div_ceil(64) {
        filler.fill(&mut slot, &rows, &train, &order, batch);
        let (first_series, first_time) = (slot.meta.series[0], slot.meta.time[0]);
        println!(
            "batch {batch}: {} windows, first of series {first_series} at {first_time}",
            slot.rows()
        );
    }
    Ok(())
}
