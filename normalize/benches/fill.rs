//! Filling shuffled batches, beside a parallel copy of random spans of the same size into the
//! same slot: the same bytes, access pattern and threads.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use millstream_normalize::{Filler, Order, Rows, Shape, Shuffle, Span, WindowIndex};
use millstream_stage::{
    BatchSlot, ColumnScaling, Panel, PanelSchema, Shard, TimeKind, thread_pool,
};
use rayon::prelude::*;
use std::{num::NonZeroUsize, sync::Arc};

const SERIES: usize = 500;
const ROWS: usize = 1_000;
const FEATURES: usize = 105;
const BATCH: usize = 256;
const SHAPE: Shape = Shape { lookback: 60, horizon: 1, stride: 1 };
const THREADS: NonZeroUsize = NonZeroUsize::new(2).expect("2 is above zero");

/// Half a million rows of 105 features: 210 MB, far beyond any cache.
fn rows() -> Rows {
    let names: Vec<String> = (0..FEATURES).map(|i| format!("f{i}")).collect();
    let schema = PanelSchema {
        series_column: Some("symbol".into()),
        time_column: "t".into(),
        time_kind: TimeKind::Integer,
        columns: names.clone(),
        inputs: FEATURES,
        series: (0..SERIES).map(|i| i.to_string()).collect(),
        fingerprint: String::new(),
    };
    let codes = (0..SERIES * ROWS).map(|row| (row / ROWS) as u32).collect();
    let times = (0..SERIES * ROWS).map(|row| (row % ROWS) as i64).collect();
    let values = (0..SERIES * ROWS * FEATURES).map(|i| (i % 1013) as f32).collect();
    let shard = Shard::new(codes, times, values, FEATURES);
    let panel = Panel::new(Arc::new(schema), vec![shard]).expect("a sorted panel");
    let scaling: Vec<_> = names
        .into_iter()
        .map(|name| ColumnScaling { name, offset: 500.0, scale: 300.0, mean: 500.0 })
        .collect();
    Rows::new(&panel, &scaling, &scaling[..1]).expect("the columns are there")
}

fn fill(c: &mut Criterion) {
    let pool = thread_pool("bench", THREADS);
    let rows = pool.install(rows);
    let index = WindowIndex::labelled(&rows, SHAPE, Span { from: i64::MIN, until: i64::MAX });
    let shuffle = Shuffle::new(index.len(), 42, 1);
    let mut filler = Filler::new(SHAPE, BATCH);
    let layout = filler.layout(&rows, BATCH);
    // Three slots in turn, as the ring has, so that neither side copies into a warm one.
    let mut slots: Vec<_> = (0..3).map(|_| BatchSlot::on_heap(layout)).collect();
    let batches = index.len() / BATCH as u64;

    let mut group = c.benchmark_group("normalize/fill-shuffled");
    group.throughput(Throughput::Bytes((BATCH * layout.window() * size_of::<f32>()) as u64));
    let order = Order::Shuffled(shuffle.clone());
    let mut batch = 0;
    group.bench_function("ours", |b| {
        b.iter(|| {
            batch = (batch + 1) % batches;
            let slot = &mut slots[(batch % 3) as usize];
            pool.install(|| filler.fill(slot, &rows, &index, &order, batch));
        });
    });

    // The floor knows its spans beforehand and copies nothing but them.
    let spans: Vec<usize> = (0..batches * BATCH as u64)
        .map(|i| index.at(shuffle.at(i)).row + 1 - SHAPE.lookback)
        .collect();
    let mut batch = 0;
    group.bench_function("floor: parallel memcpy of random spans", |b| {
        b.iter(|| {
            batch = (batch + 1) % batches;
            let spans = &spans[batch as usize * BATCH..][..BATCH];
            let (parts, _) = slots[(batch % 3) as usize].parts_mut();
            pool.install(|| {
                parts.inputs.par_chunks_exact_mut(layout.window()).zip(spans).for_each(
                    |(out, &first)| out.copy_from_slice(rows.inputs(first, SHAPE.lookback)),
                );
            });
        });
    });
    group.finish();
}

criterion_group!(benches, fill);
criterion_main!(benches);
