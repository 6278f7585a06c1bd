//! Chunks of rows to the sorted shards of a panel, in place.
//!
//! Chunks that are in order, or can be brought into order as wholes, become shards as they are.
//! Otherwise the rows are moved along the cycles of the sorting permutation with one spare row, so
//! that the panel is never in memory twice. Which rows end up in which shard then depends on the
//! sizes of the chunks that arrived; their order never does.

use crate::{
    LoadError,
    progress::ProgressReporter,
    rows::{Chunk, RowStore},
};
use millstream_data::Shard;
use std::collections::HashMap;

/// Rows between two looks at the clock, and at whether to go on.
const ASK_EVERY: usize = 1024;

/// The names of all series in byte order, whose positions are the codes, and the sorted shards. With
/// `caseless`, names that differ in case only are one series, under the first of them.
pub(crate) fn into_shards(
    stores: Vec<RowStore>,
    width: usize,
    caseless: bool,
    reporter: &mut ProgressReporter<'_>,
) -> Result<(Vec<String>, Vec<Shard>), LoadError> {
    let mut parts: Vec<(Vec<String>, Vec<Chunk>)> =
        stores.into_iter().map(RowStore::finish).collect();
    if caseless {
        unify_case(parts.iter_mut().flat_map(|(names, _)| names).collect());
    }
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
        reporter.check_interrupt()?;
        chunks.append(&mut part);
    }
    // Tasks over ranges of a key come in the server's order of it, which need not be ours.
    chunks.sort_by_key(first_key);
    if !is_sorted(&chunks) {
        permute(&mut chunks, series.len(), width, reporter)?;
    }
    let shard = |chunk: Chunk| Shard::new(chunk.codes, chunk.times, chunk.values, width);
    Ok((series, chunks.into_iter().map(shard).collect()))
}

/// Writes names that differ in case only all like the first of them in byte order.
fn unify_case(mut names: Vec<&mut String>) {
    names.sort_unstable();
    let mut first: HashMap<String, String> = HashMap::new();
    for name in names {
        let spelling = first.entry(name.to_lowercase()).or_insert_with(|| name.clone());
        name.clone_from(spelling);
    }
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
fn permute(
    chunks: &mut [Chunk],
    series: usize,
    width: usize,
    reporter: &mut ProgressReporter<'_>,
) -> Result<(), LoadError> {
    let mut order = sorted_order(chunks, series, reporter)?;
    let mut moved = 0_usize;
    let mut rows = ChunkRows { starts: starts(chunks), chunks, width };
    let mut spare = vec![0.0; width];
    for first in 0..order.len() {
        if order[first] == first {
            continue;
        }
        let (code, time) = rows.take(first, &mut spare);
        let mut hole = first;
        loop {
            // A row that is in its place is one whose source is itself.
            let source = std::mem::replace(&mut order[hole], hole);
            if source == first {
                rows.put(hole, code, time, &spare);
                break;
            }
            rows.copy(source, hole);
            hole = source;
            moved += 1;
            if moved.is_multiple_of(ASK_EVERY) {
                reporter.check_interrupt()?;
            }
        }
    }
    Ok(())
}

/// For every place in the sorted panel, the number of the row that belongs there: rows counted out
/// by series, then sorted by time within each. This is all the memory that sorting takes, so it is
/// kept to a word a row.
fn sorted_order(
    chunks: &[Chunk],
    series: usize,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Vec<usize>, LoadError> {
    let mut ends = vec![0; series];
    for code in chunks.iter().flat_map(|chunk| &chunk.codes) {
        ends[*code as usize] += 1;
    }
    let mut rows = 0;
    for end in &mut ends {
        // For now, where the next row of the series goes.
        rows += std::mem::replace(end, rows);
    }
    let mut order = vec![0; rows];
    let codes = chunks.iter().flat_map(|chunk| &chunk.codes);
    for (row, code) in codes.enumerate() {
        if row.is_multiple_of(ASK_EVERY) {
            reporter.check_interrupt()?;
        }
        order[ends[*code as usize]] = row;
        ends[*code as usize] += 1;
    }
    let starts = starts(chunks);
    let time = |row: usize| {
        let (chunk, row) = locate(&starts, row);
        chunks[chunk].times[row]
    };
    let mut keys: Vec<(i64, usize)> = Vec::new();
    let mut start = 0;
    for end in ends {
        keys.clear();
        keys.extend(order[start..end].iter().map(|row| (time(*row), *row)));
        if !keys.is_sorted() {
            keys.sort_unstable();
            let sorted = keys.iter().map(|(_, row)| *row);
            order[start..end].iter_mut().zip(sorted).for_each(|(to, row)| *to = row);
        }
        start = end;
        reporter.check_interrupt()?;
    }
    Ok(order)
}

/// The rows of all chunks, numbered as if they were one.
struct ChunkRows<'a> {
    chunks: &'a mut [Chunk],
    /// Number of the first row of each chunk.
    starts: Vec<usize>,
    width: usize,
}

impl ChunkRows<'_> {
    fn take(&self, row: usize, values: &mut [f32]) -> (u32, i64) {
        let (chunk, row) = locate(&self.starts, row);
        let chunk = &self.chunks[chunk];
        values.copy_from_slice(&chunk.values[row * self.width..][..self.width]);
        (chunk.codes[row], chunk.times[row])
    }

    fn put(&mut self, row: usize, code: u32, time: i64, values: &[f32]) {
        let (chunk, row) = locate(&self.starts, row);
        let chunk = &mut self.chunks[chunk];
        (chunk.codes[row], chunk.times[row]) = (code, time);
        chunk.values[row * self.width..][..self.width].copy_from_slice(values);
    }

    fn copy(&mut self, from: usize, to: usize) {
        let width = self.width;
        let (from_chunk, from) = locate(&self.starts, from);
        let (to_chunk, to) = locate(&self.starts, to);
        match self.chunks.get_disjoint_mut([from_chunk, to_chunk]) {
            Ok([source, target]) => {
                (target.codes[to], target.times[to]) = (source.codes[from], source.times[from]);
                let values = &source.values[from * width..][..width];
                target.values[to * width..][..width].copy_from_slice(values);
            }
            // One chunk is both.
            Err(_) => {
                let chunk = &mut self.chunks[from_chunk];
                (chunk.codes[to], chunk.times[to]) = (chunk.codes[from], chunk.times[from]);
                chunk.values.copy_within(from * width..(from + 1) * width, to * width);
            }
        }
    }
}

/// The chunk that a row is in, and its number there.
fn locate(starts: &[usize], row: usize) -> (usize, usize) {
    let chunk = starts.partition_point(|start| *start <= row) - 1;
    (chunk, row - starts[chunk])
}

/// The number of the first row of each chunk, if all were one.
fn starts(chunks: &[Chunk]) -> Vec<usize> {
    let next = |start: &mut usize, chunk: &Chunk| {
        Some(std::mem::replace(start, *start + chunk.codes.len()))
    };
    chunks.iter().scan(0, next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::ControlFlow;

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

    fn sorted_shards(stores: Vec<RowStore>) -> (Vec<String>, Vec<Shard>) {
        let go_on = &mut |_| ControlFlow::Continue(());
        into_shards(stores, 2, false, &mut ProgressReporter::new(go_on)).unwrap()
    }

    #[test]
    fn sorting_stops_when_it_is_told_to() {
        let rows: Vec<(String, i64)> = (0..200_000).map(|n| (format!("{}", n % 7), -n)).collect();
        let rows: Vec<(&str, i64)> =
            rows.iter().map(|(name, time)| (name.as_str(), *time)).collect();
        // While rows are counted out, and while they are moved.
        for at in [1, 100, 300] {
            let mut asked = 0;
            let stop = &mut |_| {
                asked += 1;
                if asked == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let sorted = into_shards(
                stores(&rows, 1, 100_000),
                2,
                false,
                &mut ProgressReporter::eager(stop),
            );
            assert!(matches!(sorted, Err(LoadError::Interrupted)));
            assert_eq!(asked, at);
        }
    }

    #[test]
    fn chunks_in_order_are_not_moved() {
        let mut stores = stores(&[("b", 1), ("b", 2), ("a", 1), ("a", 2)], 2, 10);
        let before: Vec<*const f32> =
            stores.iter_mut().map(|store| store.push(0, 3).as_ptr().wrapping_sub(4)).collect();
        let (names, shards) = sorted_shards(stores);
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
            let (names, shards) = sorted_shards(stores(&shuffled, tasks, chunk_rows));
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
