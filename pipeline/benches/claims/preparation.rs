//! Making a market ready to be learned from: stock after stock, as scripts do it, or all at once.
//!
//! A script scales each stock and copies all its windows to a list. Ours scales the rows and keeps
//! an index; windows are copied into batches when they are asked for. So that neither is spared
//! anything, ours counts with one pass of all its batches.

use crate::{
    finding::Finding,
    harness::Failure,
    turns::Turns,
    workload::{self, BATCH, FEATURES, Size, Windows, threads},
};
use millstream_data::{BatchSlot, Shard};
use millstream_normalize::{Batches, Filler, FitSettings, Rank, ScalePer, SeriesRows};
use millstream_stage::thread_pool;
use std::hint::black_box;

/// Stocks whose windows are compared.
const CHECKED: usize = 5;

const NAMES: [&str; 3] = ["stock by stock", "ours, and every batch once", "ours alone"];

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let panel = workload::panel(size.series, size.rows)?;
    let mut settings = workload::settings();
    settings.scale.per = ScalePer::Series;
    let pool = thread_pool("preparation", threads(2));
    let prepare = || pool.install(|| Windows::new(&panel, &workload::learn_from_all(), &settings));

    let prepared = prepare()?;
    let table = panel.shards().iter().flat_map(Shard::values).copied().collect();
    let usual = Usual { table, settings: &settings };
    let mut slot = BatchSlot::on_heap(prepared.filler().layout());
    usual.check(&prepared, &mut slot)?;
    let series = prepared.rows.series().to_vec();
    drop(prepared);

    let turns = Turns::take(&NAMES, size.rounds.min(7), |way| {
        match way {
            0 => series.iter().for_each(|series| {
                black_box(usual.stock(*series));
            }),
            _ => {
                let windows = prepare()?;
                let batches = Batches::sorted(&windows.train, BATCH, Rank::ALONE)?;
                let mut filler: Filler = windows.filler();
                let wanted = if way == 1 { batches.len() } else { 0 };
                for batch in 0..wanted {
                    pool.install(|| {
                        filler.fill(&mut slot, &windows.rows, &windows.train, &batches, batch);
                    });
                }
            }
        }
        Ok(())
    })?;
    let ms = |way: usize| turns.median(way) / series.len() as f64 * 1e3;
    Ok(Finding {
        measured: Some(turns.gain(0, 1).median),
        losses: None,
        how: format!(
            "{} stocks of {} rows, {FEATURES} columns scaled per stock: stock by stock on 1 \
             thread with all windows copied {:.2} ms a stock; ours on 2 threads with every window \
             once in a batch {:.2} ms, without that {:.2} ms; same values",
            series.len(),
            size.rows,
            ms(0),
            ms(1),
            ms(2)
        ),
        reason: None,
    })
}

/// What a script does.
struct Usual<'a> {
    /// All rows, in one piece.
    table: Vec<f32>,
    settings: &'a FitSettings,
}

/// A stock made ready: its windows one after another, and the outcome of each.
struct Stock {
    windows: Vec<f32>,
    outcomes: Vec<f32>,
}

impl Usual<'_> {
    fn stock(&self, series: SeriesRows) -> Stock {
        let rows = &self.table[series.start * FEATURES..series.end * FEATURES];
        let numbers = numbers(rows);
        let scaled: Vec<f32> = rows
            .chunks_exact(FEATURES)
            .flat_map(|row| row.iter().zip(&numbers).map(|(x, [mean, scale])| (x - mean) / scale))
            .collect();
        let inputs: Vec<f32> = scaled.iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect();

        let lookback = self.settings.window.lookback.get();
        let count = (series.end - series.start).saturating_sub(lookback);
        let mut stock = Stock {
            windows: Vec::with_capacity(count * lookback * FEATURES),
            outcomes: Vec::with_capacity(count),
        };
        for first in 0..count {
            let outcome = scaled[(first + lookback) * FEATURES];
            if !outcome.is_nan() {
                let window = &inputs[first * FEATURES..(first + lookback) * FEATURES];
                stock.windows.extend_from_slice(window);
                stock.outcomes.push(outcome);
            }
        }
        stock
    }

    /// There are as many windows, and the first batches hold those of the first stocks.
    fn check(&self, prepared: &Windows, slot: &mut BatchSlot) -> Result<(), Failure> {
        let stocks = prepared.rows.series();
        let count: usize = stocks.iter().map(|series| self.stock(*series).outcomes.len()).sum();
        let mut same = count as u64 == prepared.train.len();

        let batches = Batches::sorted(&prepared.train, BATCH, Rank::ALONE)?;
        let mut filler = prepared.filler();
        let first: Vec<Stock> =
            stocks[..CHECKED].iter().map(|series| self.stock(*series)).collect();
        let mut windows = first.iter().flat_map(|stock| &stock.windows);
        let mut outcomes = first.iter().flat_map(|stock| &stock.outcomes);
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        let covered = first.iter().map(|stock| stock.outcomes.len()).sum::<usize>() / BATCH;
        for batch in 0..covered as u64 {
            filler.fill(slot, &prepared.rows, &prepared.train, &batches, batch);
            let (parts, _) = slot.parts_mut();
            same &= parts.inputs.iter().zip(&mut windows).all(near);
            same &= parts.targets.iter().zip(&mut outcomes).all(near);
        }
        if same { Ok(()) } else { Err("the ways prepare differently".into()) }
    }
}

/// Mean and standard deviation of each column's known values.
fn numbers(rows: &[f32]) -> Vec<[f32; 2]> {
    let mut sums = vec![[0.0f64; 3]; FEATURES];
    for row in rows.chunks_exact(FEATURES) {
        for ([count, sum, squares], x) in sums.iter_mut().zip(row) {
            if !x.is_nan() {
                let x = f64::from(*x);
                *count += 1.0;
                *sum += x;
                *squares += x * x;
            }
        }
    }
    let number = |[count, sum, squares]: [f64; 3]| {
        let mean = sum / count;
        [mean as f32, (squares / count - mean * mean).sqrt() as f32]
    };
    sums.into_iter().map(number).collect()
}
