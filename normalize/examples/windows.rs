//! From an Arrow table to shuffled training batches, with no libtorch and no database.

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use millstream_data::{BatchSlot, Reference};
use millstream_normalize::{
    Batches, Filler, FitSettings, Fitted, Rank, Rows, ScaleGroup, ScaleMethod, ScaleSettings,
    Shape, Split, SplitSettings, TargetSettings, TrainingOrder, WindowIndex, WindowOrder,
    WindowSettings, fit, panel_of,
};
use std::{error::Error, num::NonZeroUsize, sync::Arc};

const BATCH: usize = 64;

/// Two sensors, 200 seconds each, as they come from anywhere: in any order, with gaps.
fn table() -> Result<RecordBatch, Box<dyn Error>> {
    let rows = || (0..400u16).rev();
    let second = |row: u16| i64::from(row / 2);
    let angle = |row: u16| second(row) as f32 / 9.0 + f32::from(row % 2);
    let name = |row: u16| if row.is_multiple_of(2) { "north" } else { "south" };
    let level = |row: u16| (!row.is_multiple_of(37)).then(|| 20.0 + angle(row).sin());
    Ok(RecordBatch::try_from_iter([
        ("sensor", Arc::new(StringArray::from_iter_values(rows().map(name))) as ArrayRef),
        ("second", Arc::new(Int64Array::from_iter_values(rows().map(second)))),
        ("level", Arc::new(rows().map(level).collect::<Float32Array>())),
        ("load", Arc::new(Float32Array::from_iter_values(rows().map(|row| angle(row).exp())))),
    ])?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let panel = panel_of(&[table()?], Some("sensor"), "second")?;

    let rows = |n| NonZeroUsize::new(n).ok_or("a window has rows");
    let settings = FitSettings {
        target: TargetSettings { columns: vec!["level".into()], ..Default::default() },
        window: WindowSettings { lookback: rows(24)?, horizon: rows(3)?, ..Default::default() },
        // Levels relative to the last one a window shows, loads on a logarithmic scale.
        scale: ScaleSettings {
            groups: vec![
                ScaleGroup {
                    columns: vec!["level".into()],
                    reference: Some(Reference::Last),
                    ..Default::default()
                },
                ScaleGroup {
                    columns: vec!["lo*".into()],
                    method: Some(ScaleMethod::Log1p),
                    ..Default::default()
                },
            ],
            ..Default::default()
        },
    };
    let split = Split::new(&panel, &SplitSettings::default())?;
    let Fitted { schema, scaling, warnings } = fit(&panel, split.train(), &settings)?;
    warnings.iter().for_each(|warning| println!("warning: {warning}"));
    let rows = Rows::new(&panel, &schema, &scaling)?;
    let shape = Shape::of(&schema, &settings.window);
    let train = WindowIndex::labelled(&rows, shape, split.train().part());
    println!("{} training windows; left out: {:?}", train.len(), train.left_out());

    let epoch = TrainingOrder { order: WindowOrder::Global, drop_last: false, seed: 42, epoch: 1 };
    let batches = Batches::training(&rows, &train, BATCH, Rank::ALONE, epoch)?;
    let mut filler = Filler::new(&rows, shape, schema.padding, BATCH);
    let mut slot = BatchSlot::on_heap(filler.layout());
    for batch in 0..batches.len() {
        filler.fill(&mut slot, &rows, &train, &batches, batch);
        let (series, second) = (slot.meta.series[0], slot.meta.time[0]);
        let name = &panel.schema().series[series as usize];
        println!("batch {batch}: {} windows, the first of {name} at {second}", slot.rows());
    }
    Ok(())
}
