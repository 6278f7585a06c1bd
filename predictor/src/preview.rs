//! [`Preview`]: a few rows of a table that goes by, the first and the last of it.

use arrow::array::RecordBatch;
use std::collections::VecDeque;

/// Rows that are kept of the beginning.
const FIRST: usize = 5;

/// Rows that are kept of the end.
const LAST: usize = 3;

/// The first and the last rows of what was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Preview {
    first: Vec<RecordBatch>,
    last: VecDeque<RecordBatch>,
}

impl Preview {
    /// More rows go by. They are shared, not copied.
    pub(crate) fn see(&mut self, rows: &RecordBatch) {
        let room = FIRST - count(&self.first);
        let taken = room.min(rows.num_rows());
        if taken > 0 {
            self.first.push(rows.slice(0, taken));
        }
        let left = (rows.num_rows() - taken).min(LAST);
        if left > 0 {
            self.last.push_back(rows.slice(rows.num_rows() - left, left));
        }
        while let Some(oldest) = self.last.front()
            && count(&self.last) - oldest.num_rows() >= LAST
        {
            self.last.pop_front();
        }
    }

    /// They, in order.
    pub(crate) fn rows(&self) -> Vec<RecordBatch> {
        let spare = count(&self.last).saturating_sub(LAST);
        let last = self.last.iter().enumerate().map(|(at, rows)| {
            let skipped = if at == 0 { spare } else { 0 };
            rows.slice(skipped, rows.num_rows() - skipped)
        });
        self.first.iter().cloned().chain(last).collect()
    }
}

fn count<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> usize {
    batches.into_iter().map(RecordBatch::num_rows).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{array::AsArray, array::Int32Array, datatypes::Int32Type};
    use std::sync::Arc;

    fn check(batches: &[usize], expected: &[i32]) {
        let (mut preview, mut next) = (Preview::default(), 0);
        for &rows in batches {
            let values = Arc::new(Int32Array::from_iter_values(next..next + rows as i32));
            next += rows as i32;
            preview.see(&RecordBatch::try_from_iter([("n", values as _)]).unwrap());
        }
        let found = preview.rows();
        let found = found.iter().flat_map(|rows| rows["n"].as_primitive::<Int32Type>().values());
        assert_eq!(found.copied().collect::<Vec<_>>(), expected, "{batches:?}");
    }

    #[test]
    fn the_first_and_the_last_rows_are_kept() {
        check(&[], &[]);
        check(&[3, 0, 1], &[0, 1, 2, 3]);
        check(&[8], &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&[4, 4], &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&[100], &[0, 1, 2, 3, 4, 97, 98, 99]);
        check(&[2, 2, 2, 2, 2], &[0, 1, 2, 3, 4, 7, 8, 9]);
        check(&[6, 1, 1], &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(&[1; 12], &[0, 1, 2, 3, 4, 9, 10, 11]);
    }
}
