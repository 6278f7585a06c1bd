//! [`RowStore`]: where readers put rows, as they arrive.
//!
//! Rows go straight into shard-sized row-major chunks, and nothing is moved here; what becomes of
//! chunks that are not in order is the business of [`order`](crate::order). A source that is read
//! in parallel fills a store per task.
//!
//! The whole panel is held in memory while it is read; a panel larger than memory can be opened
//! from the cache but not imported on this machine.

use std::collections::HashMap;

/// Size at which a chunk is closed, in bytes of values.
const CHUNK_BYTES: usize = 64 << 20;

/// Rows in order of arrival.
#[derive(Debug)]
pub(crate) struct RowStore {
    width: usize,
    chunk_rows: usize,
    /// Rows to make room for when a chunk is opened.
    room: usize,
    names: SeriesNames,
    full: Vec<Chunk>,
    open: Chunk,
}

/// Adjacent rows: a shard to be.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Codes of the series, as the store numbered them.
    pub(crate) codes: Vec<u32>,
    pub(crate) times: Vec<i64>,
    pub(crate) values: Vec<f32>,
}

/// Series names in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct SeriesNames {
    names: Vec<String>,
    codes: HashMap<String, u32>,
    /// Neighbouring rows mostly share their series.
    last: u32,
}

impl RowStore {
    pub(crate) fn new(width: usize) -> Self {
        RowStore::with_chunk_rows(width, (CHUNK_BYTES / (4 * width.max(1))).max(1))
    }

    pub(crate) fn with_chunk_rows(width: usize, chunk_rows: usize) -> Self {
        RowStore {
            width,
            chunk_rows,
            room: 0,
            names: SeriesNames::default(),
            full: Vec::new(),
            open: Chunk::default(),
        }
    }

    /// The code for a series, new or known.
    pub(crate) fn code(&mut self, name: &str) -> u32 {
        self.names.code(name)
    }

    /// Adds a row whose values are all missing, and hands them out to be filled.
    pub(crate) fn push(&mut self, code: u32, time: i64) -> &mut [f32] {
        let start = self.open_row(code, time);
        let values = &mut self.open.values;
        values.resize(start + self.width, f32::NAN);
        &mut values[start..]
    }

    /// Adds the keys of a row, and says where its values go.
    #[inline]
    fn open_row(&mut self, code: u32, time: i64) -> usize {
        if self.open.codes.len() == self.chunk_rows {
            self.close_chunk(code);
        }
        let open = &mut self.open;
        if open.codes.is_empty() {
            open.reserve(self.room, self.width);
        }
        open.codes.push(code);
        open.times.push(time);
        open.values.reserve(self.width);
        open.values.len()
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.full.iter().chain(Some(&self.open)).map(|chunk| chunk.codes.len() as u64).sum()
    }

    /// The names of the series, whose positions are the codes, and the chunks that have rows.
    pub(crate) fn finish(mut self) -> (Vec<String>, Vec<Chunk>) {
        self.open.shrink();
        self.full.push(self.open);
        self.full.retain(|chunk| !chunk.codes.is_empty());
        (self.names.names, self.full)
    }

    /// The series of the next row moves on as a whole, unless it fills the chunk by itself.
    fn close_chunk(&mut self, next: u32) {
        let start = self.open.codes.iter().rposition(|code| *code != next).map_or(0, |i| i + 1);
        let mut rest = Chunk::default();
        rest.reserve(self.room, self.width);
        if start > 0 {
            rest.codes.extend(self.open.codes.drain(start..));
            rest.times.extend(self.open.times.drain(start..));
            rest.values.extend(self.open.values.drain(start * self.width..));
        }
        self.full.push(std::mem::replace(&mut self.open, rest));
    }
}

/// For rows that are decoded in place, a store per task.
#[cfg(feature = "postgres")]
impl RowStore {
    /// A store that makes room for about `rows` rows at once: memory that is not written to costs
    /// nothing, moving a growing chunk does.
    pub(crate) fn with_room(width: usize, rows: u64) -> Self {
        let mut store = RowStore::new(width);
        store.room = usize::try_from(rows).unwrap_or(usize::MAX).min(store.chunk_rows);
        store
    }

    /// The code of the series that was asked for last, if it has this name. Neighbouring rows mostly
    /// share their series, and to compare bytes is all it takes then.
    pub(crate) fn same_as_last(&self, name: &[u8]) -> Option<u32> {
        let last = self.names.names.get(self.names.last as usize)?;
        (last.as_bytes() == name).then_some(self.names.last)
    }

    /// The names so far; a code is a position in this list.
    pub(crate) fn names(&self) -> &[String] {
        &self.names.names
    }

    /// Adds a row and has `fill` append its values, of which there must be as many as columns. If
    /// it fails, it is as if the row had never come.
    #[inline]
    pub(crate) fn append<E>(
        &mut self,
        code: u32,
        time: i64,
        fill: impl FnOnce(&mut Vec<f32>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.open_row(code, time);
        let filled = fill(&mut self.open.values);
        if filled.is_err() {
            self.open.codes.pop();
            self.open.times.pop();
            self.open.values.truncate(start);
        }
        assert_eq!(self.open.values.len(), self.open.codes.len() * self.width, "rows are whole");
        filled
    }

    /// Chunks that no more rows will go to.
    pub(crate) fn take_full(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.full)
    }
}

impl Chunk {
    fn reserve(&mut self, rows: usize, width: usize) {
        self.codes.reserve(rows);
        self.times.reserve(rows);
        self.values.reserve(rows * width);
    }

    fn shrink(&mut self) {
        self.codes.shrink_to_fit();
        self.times.shrink_to_fit();
        self.values.shrink_to_fit();
    }
}

impl SeriesNames {
    /// The names; a code is a position in this list.
    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    /// The code for a series, new or known.
    pub(crate) fn code(&mut self, name: &str) -> u32 {
        if self.names.get(self.last as usize).is_some_and(|last| last == name) {
            return self.last;
        }
        self.last = match self.codes.get(name) {
            Some(code) => *code,
            None => {
                let code =
                    u32::try_from(self.names.len()).expect("fewer than 2^32 names fit in memory");
                self.names.push(name.to_owned());
                self.codes.insert(name.to_owned(), code);
                code
            }
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_chunks(rows: &[(&str, i64)], expected: &[&[(u32, i64)]]) {
        let mut store = RowStore::with_chunk_rows(1, 3);
        for (name, time) in rows {
            let code = store.code(name);
            store.push(code, *time);
        }
        let (_, chunks) = store.finish();
        let found: Vec<Vec<(u32, i64)>> = chunks
            .iter()
            .map(|c| c.codes.iter().copied().zip(c.times.iter().copied()).collect())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_series_that_fits_stays_whole() {
        let rows = [("a", 1), ("a", 2), ("b", 1), ("b", 2)];
        check_chunks(&rows, &[&[(0, 1), (0, 2)], &[(1, 1), (1, 2)]]);
    }

    #[test]
    fn a_series_longer_than_a_chunk_is_cut() {
        let rows = [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("b", 5)];
        check_chunks(&rows, &[&[(0, 1)], &[(1, 1), (1, 2), (1, 3)], &[(1, 4), (1, 5)]]);
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_row_that_fails_leaves_no_trace() {
        let mut store = RowStore::with_chunk_rows(1, 3);
        let code = store.code("a");
        for time in 1..=3 {
            store.push(code, time)[0] = time as f32;
        }
        let failed = store.append(code, 4, |values| {
            values.push(4.0);
            Err(())
        });
        assert_eq!(failed, Err(()));
        let filled: Result<(), ()> = store.append(code, 5, |values| {
            values.push(5.0);
            Ok(())
        });
        assert_eq!(filled, Ok(()));
        assert_eq!(store.rows(), 4);
        let (_, chunks) = store.finish();
        assert_eq!(chunks.iter().map(|c| c.codes.len()).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(chunks[1].values, [5.0]);
    }
}
