//! Windows, splits and filled batches against a slow, obvious reference.

use crate::support::{Table, table};
use millstream_normalize::{
    Filler, Order, Rows, ScaleMethod, Shape, Shuffle, Span, Split, SplitSettings, Window,
    WindowIndex, fit,
};
use millstream_stage::{BatchSlot, ColumnScaling, Panel};
use proptest::prelude::*;

fn shape() -> impl Strategy<Value = Shape> {
    (1usize..6, 1usize..4, 1usize..4).prop_map(|(lookback, horizon, stride)| Shape {
        lookback,
        horizon,
        stride,
    })
}

/// Leaves values as they are, so that a batch can be compared with the table.
fn unscaled(panel: &Panel) -> Vec<ColumnScaling> {
    let names = panel.schema().columns.iter();
    names
        .map(|name| ColumnScaling { name: name.clone(), offset: 0.0, scale: 1.0, mean: 0.0 })
        .collect()
}

/// (series, last input row within the series) of every window, by trying all of them.
fn naive(table: &Table, shape: Shape, span: Span) -> Vec<(u32, usize)> {
    let mut windows = Vec::new();
    for (code, rows) in table.series.iter().enumerate() {
        let inside = |row: usize| rows[row].0 >= span.from && rows[row].0 < span.until;
        // Windows whose targets exist and lie in the span, before stride and missing targets.
        let fits: Vec<usize> = (0..rows.len())
            .filter(|&last| last + 1 >= shape.lookback && last + shape.horizon < rows.len())
            .filter(|&last| (last + 1..=last + shape.horizon).all(inside))
            .collect();
        for last in fits.into_iter().step_by(shape.stride) {
            let targets = last + 1..=last + shape.horizon;
            // Column 0 is the target.
            if targets.clone().all(|row| !rows[row].1[0].is_nan()) {
                windows.push((code as u32, last));
            }
        }
    }
    windows
}

fn starts(table: &Table) -> Vec<usize> {
    let mut start = 0;
    table
        .series
        .iter()
        .map(|rows| {
            let here = start;
            start += rows.len();
            here
        })
        .collect()
}

proptest! {
    #[test]
    fn the_index_is_the_reference(
        table in table(), shape in shape(), from in 0i64..60, length in 0i64..80, cut in 1usize..30,
    ) {
        let panel = table.panel(cut);
        let columns = unscaled(&panel);
        let rows = Rows::new(&panel, &columns, &columns[..1]).unwrap();
        let starts = starts(&table);
        for span in [Span { from, until: from + length }, Span { from: i64::MIN, until: i64::MAX }] {
            let index = WindowIndex::labelled(&rows, shape, span);
            let found: Vec<_> = (0..index.len())
                .map(|i| { let w = index.at(i); (w.series, w.row - starts[w.series as usize]) })
                .collect();
            prop_assert_eq!(found, naive(&table, shape, span));
        }
    }

    #[test]
    fn a_batch_holds_the_rows_of_its_windows(
        table in table(), shape in shape(), seed: u64, size in 1usize..9, cut in 1usize..30,
    ) {
        let panel = table.panel(cut);
        let columns = unscaled(&panel);
        let rows = Rows::new(&panel, &columns, &columns[..1]).unwrap();
        let index = WindowIndex::forecastable(&rows, shape, i64::MIN);
        let starts = starts(&table);
        let mut filler = Filler::new(shape, size);
        let mut slot = BatchSlot::on_heap(filler.layout(&rows, size));
        let shuffle = Shuffle::new(index.len(), seed, 1);
        let order = Order::Shuffled(shuffle.clone());
        let or_zero = |v: f32| if v.is_nan() { 0.0 } else { v };
        for batch in 0..index.len().div_ceil(size as u64) {
            filler.fill(&mut slot, &rows, &index, &order, batch);
            let layout = slot.layout();
            let count = slot.rows();
            let (parts, meta) = slot.parts_mut();
            for i in 0..count {
                let Window { series, row, .. } = index.at(shuffle.at(batch * size as u64 + i as u64));
                let rows = &table.series[series as usize];
                let last = row - starts[series as usize];
                prop_assert_eq!((meta.series[i], meta.time[i]), (series, rows[last].0));
                let inputs: Vec<f32> = rows[last + 1 - shape.lookback..=last]
                    .iter().flat_map(|r| r.1.iter().map(|v| or_zero(*v))).collect();
                prop_assert_eq!(&parts.inputs[i * layout.window()..][..layout.window()], &inputs[..]);
                for step in 0..shape.horizon {
                    let expected = rows.get(last + 1 + step).map_or(f32::NAN, |r| r.1[0]);
                    let found = parts.targets[i * layout.labels() + step];
                    prop_assert_eq!(found.to_bits(), expected.to_bits());
                }
                prop_assert_eq!(parts.last[i].to_bits(), rows[last].1[0].to_bits());
            }
        }
    }

    #[test]
    fn nothing_after_the_train_border_reaches_training(
        table in table(), shape in shape(), share in 0.2f64..0.9, cut in 1usize..30,
        minmax: bool, replacement in -1e6f32..1e6,
    ) {
        let panel = table.panel(cut);
        let settings = SplitSettings { train: share, validation: 0.0, ..SplitSettings::default() };
        let Ok(split) = Split::new(&panel, &settings) else { return Ok(()) };
        let method = if minmax { ScaleMethod::Minmax } else { ScaleMethod::Zscore };

        let mut changed = table.clone();
        for row in changed.series.iter_mut().flatten().filter(|row| row.0 >= split.train().end()) {
            row.1.fill(replacement);
        }
        let batches = |table: &Table| {
            let panel = table.panel(cut);
            let columns = fit(&panel, &split.train(), method);
            let rows = Rows::new(&panel, &columns, &columns[..1]).unwrap();
            let index = WindowIndex::labelled(&rows, shape, split.train_span());
            let mut filler = Filler::new(shape, 64);
            let mut slot = BatchSlot::on_heap(filler.layout(&rows, 64));
            let mut bits = Vec::new();
            for batch in 0..index.len().div_ceil(64) {
                filler.fill(&mut slot, &rows, &index, &Order::Sorted, batch);
                bits.extend(slot.values().iter().map(|v| v.to_bits()));
            }
            (columns, bits)
        };
        prop_assert_eq!(batches(&table), batches(&changed));
    }

    #[test]
    fn scales_are_the_same_on_any_number_of_threads_and_close_to_a_plain_sum(
        table in table(), cut in 1usize..30,
    ) {
        let panel = table.panel(cut);
        let settings = SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() };
        let Ok(split) = Split::new(&panel, &settings) else { return Ok(()) };
        let on = |threads| {
            let pool = millstream_stage::thread_pool("fit", std::num::NonZeroUsize::new(threads).unwrap());
            pool.install(|| fit(&panel, &split.train(), ScaleMethod::Zscore))
        };
        let columns = on(1);
        prop_assert_eq!(&columns, &on(2));
        prop_assert_eq!(&columns, &on(8));
        for (i, column) in columns.iter().enumerate() {
            let values: Vec<f64> = table.series.iter().flatten()
                .map(|row| f64::from(row.1[i])).filter(|v| !v.is_nan()).collect();
            if values.len() < 2 { continue }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
            prop_assert!((column.offset - mean).abs() <= 1e-12 * mean.abs().max(1.0));
            prop_assert!((column.scale - variance.sqrt()).abs() <= 1e-10 * variance.sqrt());
        }
    }
}

/// The guard behind the leakage test: without the border, the future does reach the statistics.
#[test]
fn without_the_border_the_future_would_leak() {
    let rows = |late: f32| {
        let series =
            (0..10).map(|t| (t, vec![if t < 7 { 1.0 + t as f32 } else { late }])).collect();
        Table { width: 1, series: vec![series] }
    };
    let fitted = |late, train| {
        let panel = rows(late).panel(100);
        let settings = SplitSettings { train, validation: 0.0, ..SplitSettings::default() };
        fit(&panel, &Split::new(&panel, &settings).unwrap().train(), ScaleMethod::Zscore)
    };
    assert_eq!(fitted(5.0, 0.7), fitted(1e6, 0.7));
    assert_ne!(fitted(5.0, 1.0), fitted(1e6, 1.0));
}

#[test]
fn constant_and_empty_columns_keep_a_finite_scale() {
    let series = (0..10).map(|t| (t, vec![7.5, f32::NAN, 16_777_216.0])).collect();
    let panel = Table { width: 3, series: vec![series] }.panel(4);
    let settings = SplitSettings { train: 1.0, validation: 0.0, ..SplitSettings::default() };
    let split = Split::new(&panel, &settings).unwrap();
    for method in [ScaleMethod::Zscore, ScaleMethod::Minmax, ScaleMethod::None] {
        for column in fit(&panel, &split.train(), method) {
            assert_eq!(column.scale, 1.0, "{column:?}");
            assert!(column.offset.is_finite(), "{column:?}");
        }
    }
}
