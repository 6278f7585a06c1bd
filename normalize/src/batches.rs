//! [`Batches`]: which windows each batch of a pass holds, and in which order.
//!
//! A pure function of (seed, epoch, batch): it seeks in O(1) and does not depend on threads. Of a
//! global batch every rank takes its slice, so that all ranks together see each window once.

use crate::{
    cross_section::TimeIndex, error::NormalizeError, rows::ScaledRows, settings::WindowOrder,
    shuffle::Shuffle, windows::WindowIndex,
};
use millstream_data::PanelSchema;
use std::{ops::Range, sync::Arc};

/// One of several processes that share every batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Which one, from 0.
    pub rank: usize,
    /// How many there are.
    pub ranks: usize,
}

impl Rank {
    /// A process by itself.
    pub const ALONE: Rank = Rank { rank: 0, ranks: 1 };
}

/// The batches of one pass over an index.
#[derive(Debug, Clone)]
pub struct Batches {
    order: Order,
    windows: u64,
    /// Windows of a full global batch.
    global: u64,
    rank: u64,
    ranks: u64,
    count: u64,
}

#[derive(Debug, Clone)]
enum Order {
    Sorted,
    Global(Shuffle),
    Shards(ShardShuffle),
    ByTime { times: Arc<TimeBatches>, shuffle: Option<Shuffle> },
}

/// Windows grouped into batches of whole times.
#[derive(Debug)]
pub struct TimeBatches {
    /// Positions in the index, by time and then by series.
    positions: Vec<u64>,
    /// Where each batch starts in `positions`, and the end.
    starts: Vec<usize>,
}

/// Shards in a shuffled order, windows shuffled within each.
#[derive(Debug, Clone)]
struct ShardShuffle {
    /// In the order of their visit: where the shard's windows start in the pass, where they start
    /// in the index, and their shuffle.
    shards: Vec<(u64, u64, Shuffle)>,
}

impl Batches {
    /// All windows in the order of the index.
    ///
    /// # Errors
    /// [`NormalizeError::Ranks`] when `batch_size`, the size of a global batch, is not a multiple
    /// of the ranks.
    pub fn sorted(
        index: &WindowIndex,
        batch_size: usize,
        rank: Rank,
    ) -> Result<Self, NormalizeError> {
        Batches::new(Order::Sorted, index, batch_size, rank, false)
    }

    /// The training windows in the order of one epoch.
    ///
    /// # Errors
    /// As [`sorted`](Self::sorted).
    ///
    /// # Panics
    /// For `by_time`, which has batches of its own: [`by_time`](Self::by_time).
    pub fn training(
        rows: &ScaledRows,
        index: &WindowIndex,
        batch_size: usize,
        rank: Rank,
        TrainingOrder { order, drop_last, seed, epoch }: TrainingOrder,
    ) -> Result<Self, NormalizeError> {
        let order = match order {
            WindowOrder::Global => Order::Global(Shuffle::new(index.len(), seed, epoch)),
            WindowOrder::Shards => Order::Shards(ShardShuffle::new(rows, index, seed, epoch)),
            WindowOrder::None => Order::Sorted,
            WindowOrder::ByTime => unreachable!("by_time is made from its batches"),
        };
        Batches::new(order, index, batch_size, rank, drop_last)
    }

    /// Whole times; in a shuffled order where a (seed, epoch) is given. Ranks take whole batches;
    /// what does not fill a round of them is left out.
    #[must_use]
    pub fn by_time(times: &Arc<TimeBatches>, rank: Rank, shuffle: Option<(u64, u32)>) -> Self {
        let batches = times.len();
        let shuffle = shuffle.map(|(seed, epoch)| Shuffle::new(batches, seed, epoch));
        Batches {
            order: Order::ByTime { times: Arc::clone(times), shuffle },
            windows: times.positions.len() as u64,
            global: 0,
            rank: rank.rank as u64,
            ranks: rank.ranks as u64,
            count: batches / rank.ranks as u64,
        }
    }

    fn new(
        order: Order,
        index: &WindowIndex,
        batch_size: usize,
        rank: Rank,
        drop_last: bool,
    ) -> Result<Self, NormalizeError> {
        let Rank { rank, ranks } = rank;
        if ranks == 0 || rank >= ranks || batch_size == 0 || !batch_size.is_multiple_of(ranks) {
            return Err(NormalizeError::Ranks { batch_size, rank, ranks });
        }
        let (windows, global, ranks) = (index.len(), batch_size as u64, ranks as u64);
        let left = windows % global;
        // A last batch with nothing for some rank would leave it behind the others.
        let keeps_last = left >= ranks && !drop_last;
        let count = windows / global + u64::from(keeps_last);
        Ok(Batches { order, windows, global, rank: rank as u64, ranks, count })
    }

    /// The first of them, and no more than that many.
    #[must_use]
    pub fn at_most(mut self, batches: u64) -> Self {
        self.count = self.count.min(batches);
        self
    }

    /// Windows in all of them, those of all ranks where ranks share batches.
    #[must_use]
    pub fn windows(&self) -> u64 {
        if let Order::ByTime { .. } = self.order {
            return (0..self.count).map(|batch| self.places(batch)).map(|p| p.end - p.start).sum();
        }
        self.count.saturating_mul(self.global).min(self.windows)
    }

    /// How many batches there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Places in the pass of the windows of one batch.
    ///
    /// # Panics
    /// When there is no such batch.
    #[must_use]
    pub fn places(&self, batch: u64) -> Range<u64> {
        assert!(batch < self.count, "batch {batch} of {}", self.count);
        if let Order::ByTime { times, shuffle } = &self.order {
            let batch = batch * self.ranks + self.rank;
            let batch = shuffle.as_ref().map_or(batch, |shuffle| shuffle.at(batch)) as usize;
            return times.starts[batch] as u64..times.starts[batch + 1] as u64;
        }
        let start = batch * self.global;
        let windows = self.global.min(self.windows - start);
        // Slices differ by one window at most, and only in a last batch that is not full.
        let slice = |rank: u64| start + windows * rank / self.ranks;
        slice(self.rank)..slice(self.rank + 1)
    }

    /// The window at a place: its position in the index.
    #[must_use]
    pub fn position(&self, place: u64) -> u64 {
        match &self.order {
            Order::Sorted => place,
            Order::Global(shuffle) => shuffle.at(place),
            Order::Shards(shards) => shards.at(place),
            Order::ByTime { times, .. } => times.positions[place as usize],
        }
    }
}

/// The order of one epoch's training windows.
#[derive(Debug, Clone, Copy)]
pub struct TrainingOrder {
    /// Which kind.
    pub order: WindowOrder,
    /// Whether an incomplete last batch is left out.
    pub drop_last: bool,
    /// Chooses the shuffle, with the epoch.
    pub seed: u64,
    /// The epoch, from 1.
    pub epoch: u32,
}

impl TimeBatches {
    /// Packs whole times into batches of at most `batch_size` windows, in order of time.
    ///
    /// # Errors
    /// [`NormalizeError::WideTime`] when a time has more windows than a batch.
    pub fn new(
        rows: &ScaledRows,
        index: &WindowIndex,
        batch_size: usize,
        schema: &PanelSchema,
    ) -> Result<Self, NormalizeError> {
        let times: Vec<i64> = (0..index.len()).map(|i| rows.times()[index.at(i).row]).collect();
        let by_time = TimeIndex::new(&times);
        let positions: Vec<u64> = by_time.rows().iter().map(|&row| u64::from(row)).collect();
        if let Some(widest) = by_time.groups().max_by_key(ExactSizeIterator::len)
            && widest.len() > batch_size
        {
            return Err(NormalizeError::WideTime {
                time: schema.format_time(times[positions[widest.start] as usize]),
                windows: widest.len() as u64,
                batch_size,
            });
        }
        let mut starts = vec![0];
        for group in by_time.groups() {
            if group.end - starts[starts.len() - 1] > batch_size {
                starts.push(group.start);
            }
        }
        if !positions.is_empty() {
            starts.push(positions.len());
        }
        Ok(TimeBatches { positions, starts })
    }

    /// How many batches there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.starts.len() - 1) as u64
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ShardShuffle {
    fn new(rows: &ScaledRows, index: &WindowIndex, seed: u64, epoch: u32) -> Self {
        // A window belongs to the shard it ends in; in the index those are adjacent.
        let mut borders: Vec<u64> =
            rows.shard_starts.iter().map(|&row| index.before(row)).collect();
        borders.push(index.len());
        let ranges: Vec<(u64, u64)> = borders.windows(2).map(|pair| (pair[0], pair[1])).collect();
        let visit = Shuffle::new(ranges.len() as u64, seed, epoch);
        let mut place = 0;
        let shards = (0..ranges.len() as u64)
            .map(|i| {
                let shard = visit.at(i);
                let (start, end) = ranges[shard as usize];
                // Each shard its own key, or all would be shuffled alike.
                let shuffle = Shuffle::new(end - start, seed ^ (shard + 1).rotate_left(32), epoch);
                let at = place;
                place += end - start;
                (at, start, shuffle)
            })
            .collect();
        ShardShuffle { shards }
    }

    fn at(&self, place: u64) -> u64 {
        let shard = self.shards.partition_point(|(at, ..)| *at <= place) - 1;
        let (at, start, shuffle) = &self.shards[shard];
        start + shuffle.at(place - at)
    }
}
