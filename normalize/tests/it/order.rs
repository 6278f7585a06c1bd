//! Which windows each batch holds: whole epochs, ranks, shards and times.

use crate::{
    cases::{Filled, size},
    support::{Table, cuts, table},
};
use millstream_data::{BatchSlot, Missing, Panel};
use millstream_normalize::{
    Batches, Filler, FitSettings, Fitted, Rank, ScaleMethod, ScaleSettings, ScaledRows, Shuffle,
    Split, SplitPart, SplitSettings, TargetSettings, TimeBatches, TrainingOrder, WindowIndex,
    WindowOrder, WindowSettings, WindowShape, fit,
};
use proptest::{prelude::*, sample::select};
use std::sync::Arc;

/// Every window of a table whose rows are taken as they are; the segments are the target.
struct Windows {
    panel: Panel,
    rows: ScaledRows,
    index: WindowIndex,
    shape: WindowShape,
}

impl Windows {
    fn new(table: &Table, cuts: &[usize], stride: usize) -> Option<Self> {
        let panel = table.panel(cuts);
        let everything = SplitSettings { train: 1.0, validation: 0.0, ..Default::default() };
        let settings = FitSettings {
            target: TargetSettings { columns: vec!["segment".into()], ..Default::default() },
            window: WindowSettings {
                lookback: size(2),
                stride: size(stride),
                ..WindowSettings::default()
            },
            scale: ScaleSettings {
                method: ScaleMethod::None,
                // Gaps, so that runs of windows are short.
                missing: Missing::Drop,
                ..ScaleSettings::default()
            },
        };
        let split = Split::new(&panel, &everything).ok()?;
        let Fitted { schema, scaling, .. } = fit(&panel, split.train(), &settings).ok()?;
        let rows = ScaledRows::new(&panel, &schema, &scaling).unwrap();
        let shape = WindowShape::of(&schema, &settings.window);
        let index = WindowIndex::labelled(&rows, shape, &SplitPart::everything());
        Some(Windows { panel, rows, index, shape })
    }

    fn time(&self, position: u64) -> i64 {
        self.rows.times()[self.index.at(position).row]
    }

    /// The shard a window ends in.
    fn shard(&self, position: u64) -> usize {
        let row = self.index.at(position).row;
        let mut end = 0;
        let ends = self.panel.shards().iter().map(|shard| {
            end += shard.rows();
            end
        });
        ends.into_iter().position(|end| row < end).unwrap()
    }
}

fn order() -> impl Strategy<Value = TrainingOrder> {
    let kind = select(vec![WindowOrder::Global, WindowOrder::Shards, WindowOrder::None]);
    (kind, any::<bool>(), any::<u64>(), 1u32..4)
        .prop_map(|(order, drop_last, seed, epoch)| TrainingOrder { order, drop_last, seed, epoch })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn ranks_share_every_global_batch_and_an_epoch_is_every_window_once(
        table in table(), cuts in cuts(), stride in 1usize..4, order in order(),
        ranks in 1usize..4, each in 1usize..8,
    ) {
        let Some(windows) = Windows::new(&table, &cuts, stride) else { return Ok(()) };
        let (all, size) = (windows.index.len(), (ranks * each) as u64);
        let of = |rank| Batches::training(
            &windows.rows, &windows.index, ranks * each, Rank { rank, ranks }, order,
        ).unwrap();
        let of_rank: Vec<Batches> = (0..ranks).map(of).collect();

        // Whole batches, and one of what is left where every rank gets some of it.
        let left = all % size;
        let count = all / size + u64::from(!order.drop_last && left >= ranks as u64);
        for batches in &of_rank {
            prop_assert_eq!(batches.len(), count);
        }
        for batch in 0..count {
            let places: Vec<u64> = of_rank.iter().flat_map(|b| b.places(batch)).collect();
            prop_assert!(places.into_iter().eq(batch * size..((batch + 1) * size).min(all)));
            let sizes = of_rank.iter().map(|b| b.places(batch).count());
            let (least, most) = (sizes.clone().min().unwrap(), sizes.max().unwrap());
            prop_assert!(least >= 1 && most - least <= 1 && most <= each);
        }

        let positions: Vec<u64> = (0..all).map(|place| of_rank[0].position(place)).collect();
        let mut sorted = positions.clone();
        sorted.sort_unstable();
        prop_assert!(sorted.iter().copied().eq(0..all));
        match order.order {
            WindowOrder::None => prop_assert_eq!(positions, sorted),
            WindowOrder::Global => {
                let shuffle = Shuffle::new(all, order.seed, order.epoch);
                prop_assert!(positions.into_iter().eq((0..all).map(|place| shuffle.at(place))));
            }
            _ => {
                // One after another: a shard that has been left does not come back.
                let mut visited: Vec<usize> = positions.iter().map(|p| windows.shard(*p)).collect();
                visited.dedup();
                let visits = visited.len();
                visited.sort_unstable();
                visited.dedup();
                prop_assert_eq!(visits, visited.len());
            }
        }
    }

    #[test]
    fn a_rank_fills_its_slice_of_the_global_batch(
        table in table(), cuts in cuts(), order in order(), ranks in 1usize..4, each in 1usize..8,
    ) {
        let Some(windows) = Windows::new(&table, &cuts, 1) else { return Ok(()) };
        let Windows { rows, index, shape, .. } = &windows;
        for rank in 0..ranks {
            let rank = Rank { rank, ranks };
            let batches = Batches::training(rows, index, ranks * each, rank, order).unwrap();
            let mut filler = Filler::new(rows, *shape, millstream_data::Padding::None, each);
            let mut slot = BatchSlot::on_heap(filler.layout());
            for batch in 0..batches.len() {
                filler.fill(&mut slot, rows, index, &batches, batch);
                let filled = Filled::of(&slot);
                let found: Vec<(u32, i64)> =
                    filled.series.into_iter().zip(filled.time).collect();
                let positions = batches.places(batch).map(|place| batches.position(place));
                let expected: Vec<(u32, i64)> =
                    positions.map(|p| (index.at(p).series, windows.time(p))).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn batches_by_time_are_whole_times(
        table in table(), cuts in cuts(), size in 5usize..12, ranks in 1usize..4, seed: u64,
    ) {
        let Some(windows) = Windows::new(&table, &cuts, 1) else { return Ok(()) };
        // At most five series, so that every time fits in a batch.
        let Windows { panel, rows, index, .. } = &windows;
        let times = Arc::new(TimeBatches::new(rows, index, size, panel.schema()).unwrap());
        for shuffle in [None, Some((seed, 1))] {
            let of_rank: Vec<Batches> = (0..ranks)
                .map(|rank| Batches::by_time(&times, Rank { rank, ranks }, shuffle))
                .collect();
            let mut seen: Vec<(i64, u64)> = Vec::new();
            for batches in &of_rank {
                prop_assert_eq!(batches.len(), times.len() / ranks as u64);
                for batch in 0..batches.len() {
                    let positions: Vec<u64> =
                        batches.places(batch).map(|place| batches.position(place)).collect();
                    prop_assert!((1..=size).contains(&positions.len()));
                    let mut now: Vec<i64> = positions.iter().map(|p| windows.time(*p)).collect();
                    now.dedup();
                    for time in now {
                        let whole = (0..index.len()).filter(|p| windows.time(*p) == time);
                        let here = positions.iter().copied().filter(|p| windows.time(*p) == time);
                        prop_assert_eq!(here.collect::<Vec<_>>(), whole.collect::<Vec<_>>());
                    }
                    seen.extend(positions.iter().map(|p| (windows.time(*p), *p)));
                }
            }
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), count, "no window comes twice");
            if ranks == 1 {
                prop_assert_eq!(count as u64, index.len());
            }
        }
    }
}
