//! Reading one task: a COPY, decoded into the layout that was asked for.
//!
//! Rows are held back until the task is done, so that one that breaks off can be read again. Only
//! a task whose record batches grow past [`HOLD_BYTES`] lets them go before: memory stays bounded,
//! and its errors are final from then on.

use super::{
    copy::{CopyDecoder, DecodeRow, packed::PackedRows, typed::TypedRows},
    packed_batch,
    read_plan::ReadPlan,
    task_board::TaskBoard,
};
use crate::{LoadError, rows::RowStore};
use arrow::array::RecordBatch;
use millstream_data::TimeKind;
use millstream_postgres::Session;
use std::sync::Arc;

/// Bytes of record batches to hold back while a task may have to be read again.
const HOLD_BYTES: usize = 64 << 20;

/// Rows between two updates of the counters, which all workers share.
const COUNT_EVERY: u64 = 512;

/// What becomes of the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// Chunks of a panel, a task at a time.
    Panel,
    /// Record batches of about so many rows, the features packed.
    Packed { rows: usize },
    /// Record batches of so many rows, a column per field.
    Wide { rows: usize },
}

/// Rows that are handed over.
#[derive(Debug)]
pub(crate) enum TaskRows {
    /// All rows of a task, and what their times are.
    All(RowStore, Option<TimeKind>),
    /// Some rows of a task.
    Batch(RecordBatch),
}

/// Reads a task of the plan. `deliver` takes its rows, and says `false` when nobody wants them any
/// more; then so does this.
pub(super) fn read(
    session: &mut Session,
    plan: &ReadPlan,
    task: usize,
    layout: Layout,
    board: &TaskBoard,
    mut deliver: impl FnMut(TaskRows) -> bool,
) -> Result<bool, LoadError> {
    let columns = &plan.columns;
    let mut copy = TaskCopy { session, plan, task, board };
    let packed = |store| PackedRows::new(Arc::clone(columns), Arc::clone(&plan.filter), store);
    match layout {
        Layout::Panel => {
            let room = plan.tasks.list[task].room;
            let rows = packed(RowStore::with_room(columns.width(), room));
            let Some(rows) = copy.decode(rows, |_| true)? else { return Ok(false) };
            let (store, kind) = rows.finish();
            Ok(deliver(TaskRows::All(store, kind)))
        }
        Layout::Packed { rows } => {
            let mut held = HeldBatches::new(&mut deliver);
            let rows = packed(RowStore::with_chunk_rows(columns.width(), rows));
            let rows = copy.decode(rows, |rows| {
                let chunks = rows.store_mut().take_full();
                let names = rows.store_mut().names();
                chunks
                    .into_iter()
                    .all(|chunk| held.push(packed_batch::from_chunk(columns, names, chunk)))
            })?;
            let Some(rows) = rows else { return Ok(false) };
            let (names, chunks) = rows.finish().0.finish();
            for chunk in chunks {
                held.push(packed_batch::from_chunk(columns, &names, chunk));
            }
            Ok(held.release())
        }
        Layout::Wide { rows: most } => {
            let mut held = HeldBatches::new(&mut deliver);
            let rows = TypedRows::new(Arc::clone(columns), Arc::clone(&plan.filter));
            let rows = copy.decode(rows, |rows| rows.rows() < most || held.push(rows.take()))?;
            let Some(mut rows) = rows else { return Ok(false) };
            if rows.rows() > 0 {
                held.push(rows.take());
            }
            Ok(held.release())
        }
    }
}

/// The COPY of a task.
struct TaskCopy<'a> {
    session: &'a mut Session,
    plan: &'a ReadPlan,
    task: usize,
    board: &'a TaskBoard,
}

impl TaskCopy<'_> {
    /// Decodes the rows. `each` looks at them after every message, and says `false` when no more are
    /// wanted: the answer is then `None`.
    fn decode<R: DecodeRow>(
        &mut self,
        rows: R,
        each: impl FnMut(&mut R) -> bool,
    ) -> Result<Option<R>, LoadError> {
        let mut counted = 0;
        let decoded = self.feed(CopyDecoder::new(rows), each, &mut counted);
        let decoder = decoded.inspect_err(|_| self.board.discount(counted))?;
        let Some(decoder) = decoder else { return Ok(None) };
        let read = decoder.seen();
        let rows = decoder.finish()?;
        match self.plan.tasks.list[self.task].counted {
            Some(counted) if counted != read => {
                let place = self.plan.columns.place.clone();
                Err(LoadError::Unstable { place, counted, read })
            }
            _ => Ok(Some(rows)),
        }
    }

    /// Gives the data to the decoder; `counted` are the rows that the board was told of.
    fn feed<R: DecodeRow>(
        &mut self,
        mut decoder: CopyDecoder<R>,
        mut each: impl FnMut(&mut R) -> bool,
        counted: &mut u64,
    ) -> Result<Option<CopyDecoder<R>>, LoadError> {
        let (copy, place) = (&self.plan.tasks.list[self.task].copy, &self.plan.columns.place);
        let mut reader = self.session.copy_out(copy, place)?;
        let mut bytes = 0;
        while let Some(data) = reader.read()? {
            decoder.feed(data)?;
            bytes += data.len() as u64;
            if decoder.seen() - *counted >= COUNT_EVERY {
                self.board.count(decoder.seen() - *counted, bytes);
                (*counted, bytes) = (decoder.seen(), 0);
            }
            if !each(decoder.rows_mut()) {
                return Ok(None);
            }
        }
        self.board.count(decoder.seen() - *counted, bytes);
        Ok(Some(decoder))
    }
}

/// Record batches of a task that is not done yet.
struct HeldBatches<'a> {
    deliver: &'a mut dyn FnMut(TaskRows) -> bool,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl<'a> HeldBatches<'a> {
    fn new(deliver: &'a mut dyn FnMut(TaskRows) -> bool) -> Self {
        HeldBatches { deliver, batches: Vec::new(), bytes: 0 }
    }

    /// Takes a batch; says `false` when nobody wants it any more.
    fn push(&mut self, batch: RecordBatch) -> bool {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        self.bytes <= HOLD_BYTES || self.release()
    }

    fn release(&mut self) -> bool {
        self.batches.drain(..).all(|batch| (self.deliver)(TaskRows::Batch(batch)))
    }
}
