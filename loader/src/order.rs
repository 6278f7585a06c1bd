//! Chunks of rows to the sorted shards of a panel, in place.
//!
//! Chunks that are in order, or can be brought into order as wholes, become shards as they are.
//! Otherwise the rows are moved along the cycles of the sorting permutation with one spare row, so
//! that the panel is never in memory twice. Which rows end up in which shard then depends on the
//! sizes of the chunks that arrived; their order never does.

use crate::rows::{Chunk, RowStore};
use millstream_stage::Shard;

/// A row's place in the panel, and where it lies now.
type Key = (u32, i64, usize);

/// The names of all series in byte order, whose positions are the codes, and the sorted shards.
pub(crate) fn into_shards(stores: Vec<RowStore>, width: usize) -> (Vec<String>, Vec<Shard>) {
    let parts: Vec<(Vec<String>, Vec<Chunk>)> = stores.into_iter().map(RowStore::finish).collect();
    let mut series: Vec<String> = parts.iter().flat_map(|(names, _)| names).cloned().collect();
    series.sort_unstable();
    series.dedup();

    let mut chunks = Vec::new();
    for (names, mut part) in parts {
        let rank = |name| {
            let rank = series.binary_search(name).expect("the list holds every name");
            u32::try_from(rank).expect("fewer than 2^32 names fit in memory")
        };
        let ranks: Vec<u32> = names.iter().map(rank).collect();
        for code in part.iter_mut().flat_map(|chunk| &mut chunk.codes) {
            *code = ranks[*code as usize];
        }
        chunks.append(&mut part);
    }
    // Tasks over ranges of a key come in the server's order of it, which need not be ours.
    chunks.sort_by_key(first_key);
    if !is_sorted(&chunks) {
        permute(&mut chunks, width);
    }
    let shard = |chunk: Chunk| Shard::new(chunk.codes, chunk.times, chunk.values, width);
    (series, chunks.into_iter().map(shard).collect())
}

fn first_key(chunk: &Chunk) -> Option<(u32, i64)> {
    chunk.codes.first().copied().zip(chunk.times.first().copied())
}

fn is_sorted(chunks: &[Chunk]) -> bool {
    // Iterating over one chunk at a time is several times as fast as over all of them flattened.
    chunks.iter().all(|chunk| chunk.codes.iter().zip(&chunk.times).is_sorted())
        && chunks.windows(2).all(|pair| {
            let last = pair[0].codes.last().copied().zip(pair[0].times.last().copied());
            last <= first_key(&pair[1])
        })
}

/// Sorts the rows of all chunks as if they were one; every chunk keeps its size.
fn permute(chunks: &mut [Chunk], width: usize) {
    let mut starts = Vec::with_capacity(chunks.len());
    let mut order: Vec<Key> = Vec::with_capacity(chunks.iter().map(|c| c.codes.len()).sum());
    for chunk in &*chunks {
        starts.push(order.len());
        let keys = chunk.codes.iter().zip(&chunk.times).zip(order.len()..);
        order.extend(keys.map(|((code, time), at)| (*code, *time, at)));
    }
    order.sort_unstable();

    let mut rows = Rows { chunks, starts, width };
    for (at, (code, time, _)) in order.iter().enumerate() {
        rows.set_key(at, *code, *time);
    }
    let mut spare = vec![0.0; width];
    for first in 0..order.len() {
        if order[first].2 == first {
            continue;
        }
        spare.copy_from_slice(rows.values(first));
        let mut hole = first;
        loop {
            // A row that is in its place is one whose source is itself.
            let source = std::mem::replace(&mut order[hole].2, hole);
            if source == first {
                rows.values_mut(hole).copy_from_slice(&spare);
                break;
            }
            rows.copy(source, hole);
            hole = source;
        }
    }
}

/// The rows of all chunks, numbered as if they were one.
struct Rows<'a> {
    chunks: &'a mut [Chunk],
    /// Number of the first row of each chunk.
    starts: Vec<usize>,
    width: usize,
}

impl Rows<'_> {
    fn locate(&self, row: usize) -> (usize, usize) {
        let chunk = self.starts.partition_point(|start| *start <= row) - 1;
        (chunk, row - self.starts[chunk])
    }

    fn set_key(&mut self, row: usize, code: u32, time: i64) {
        let (chunk, row) = self.locate(row);
        (self.chunks[chunk].codes[row], self.chunks[chunk].times[row]) = (code, time);
    }

    fn values(&self, row: usize) -> &[f32] {
        let (chunk, row) = self.locate(row);
        &self.chunks[chunk].values[row * self.width..][..self.width]
    }

    fn values_mut(&mut self, row: usize) -> &mut [f32] {
        let (chunk, row) = self.locate(row);
        &mut self.chunks[chunk].values[row * self.width..][..self.width]
    }

    fn copy(&mut self, from: usize, to: usize) {
        let width = self.width;
        let ((from_chunk, from), (to_chunk, to)) = (self.locate(from), self.locate(to));
        let (from, to) = (from * width, to * width);
        match self.chunks.get_disjoint_mut([from_chunk, to_chunk]) {
            Ok([source, target]) => {
                target.values[to..][..width].copy_from_slice(&source.values[from..][..width]);
            }
            // One chunk is both.
            Err(_) => self.chunks[from_chunk].values.copy_within(from..from + width, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Puts rows into stores of a few tasks; the value of a row tells which row it was.
    fn stores(rows: &[(&str, i64)], tasks: usize, chunk_rows: usize) -> Vec<RowStore> {
        rows.chunks(rows.len().div_ceil(tasks).max(1))
            .map(|task| {
                let mut store = RowStore::with_chunk_rows(2, chunk_rows);
                for (name, time) in task {
                    let code = store.code(name);
                    store.push(code, *time).copy_from_slice(&[*time as f32, name.len() as f32]);
                }
                store
            })
            .collect()
    }

    #[test]
    fn chunks_in_order_are_not_moved() {
        let mut stores = stores(&[("b", 1), ("b", 2), ("a", 1), ("a", 2)], 2, 10);
        let before: Vec<*const f32> =
            stores.iter_mut().map(|store| store.push(0, 3).as_ptr().wrapping_sub(4)).collect();
        let (names, shards) = into_shards(stores, 2);
        assert_eq!(names, ["a", "b"]);
        // The tasks swap places; their rows stay where they were decoded.
        let found: Vec<*const f32> = shards.iter().rev().map(|s| s.values().as_ptr()).collect();
        assert_eq!(found, before);
        assert_eq!(shards[0].times(), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn arrival_order_does_not_matter(
            keys in prop::collection::btree_set(("[a-e]{1,2}", 0_i64..50), 1..60),
            seed in any::<u64>(),
            tasks in 1_usize..5,
            chunk_rows in 1_usize..9,
        ) {
            let sorted: Vec<(&str, i64)> = keys.iter().map(|(n, t)| (n.as_str(), *t)).collect();
            let mut shuffled = sorted.clone();
            shuffled.sort_by_key(|(name, time)| {
                xxhash_rust::xxh3::xxh3_64_with_seed(format!("{name}{time}").as_bytes(), seed)
            });
            let (names, shards) = into_shards(stores(&shuffled, tasks, chunk_rows), 2);
            let found: Vec<(&str, i64)> = shards
                .iter()
                .flat_map(|s| s.codes().iter().zip(s.times()))
                .map(|(code, time)| (names[*code as usize].as_str(), *time))
                .collect();
            prop_assert_eq!(&found, &sorted);
            let values: Vec<f32> = shards.iter().flat_map(|s| s.values().to_vec()).collect();
            let expected: Vec<f32> =
                sorted.iter().flat_map(|(n, t)| [*t as f32, n.len() as f32]).collect();
            prop_assert_eq!(values, expected);
            prop_assert!(names.is_sorted());
        }
    }
}
