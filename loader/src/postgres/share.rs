//! Reading one task: a COPY, decoded into the layout that was asked for.
//!
//! Rows are held back until the task is done, so that one that breaks off can be read again. Only
//! a task whose record batches grow past [`HOLD_BYTES`] lets them go before: memory stays bounded,
//! and its errors are final from then on.

use super::{batch, plan::Plan, roster::Roster, tasks::Task};
use crate::{
    LoadError,
    copy::{CopyDecoder, DecodeRow, packed::PackedRows, typed::TypedRows},
    rows::RowStore,
};
use arrow::array::RecordBatch;
use millstream_data::TimeKind;
use millstream_postgres::Session;
use std::{ops::ControlFlow, sync::Arc};

/// Bytes of record batches to hold back while a task may have to be read again.
const HOLD_BYTES: usize = 64 << 20;

/// Rows between two updates of the counters, which all members share.
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
pub(crate) enum Part {
    /// All rows of a task, and what their times are.
    Rows(RowStore, Option<TimeKind>),
    /// Some rows of a task.
    Batch(RecordBatch),
}

/// Reads a task. `deliver` takes its rows, and says `false` when nobody wants them any more; then
/// so does this.
pub(super) fn read_task(
    session: &mut Session,
    plan: &Plan,
    task: &Task,
    layout: Layout,
    roster: &Roster,
    mut deliver: impl FnMut(Part) -> bool,
) -> Result<bool, LoadError> {
    let columns = &plan.columns;
    let packed = |store| PackedRows::new(Arc::clone(columns), Arc::clone(&plan.filter), store);
    match layout {
        Layout::Panel => {
            let rows = packed(RowStore::with_room(columns.width(), task.room));
            let Some(rows) = copy(session, task, roster, rows, |_| true)? else {
                return Ok(false);
            };
            let (store, kind) = rows.finish();
            Ok(deliver(Part::Rows(store, kind)))
        }
        Layout::Packed { rows } => {
            let mut held = Held::new(&mut deliver);
            let rows = packed(RowStore::with_chunk_rows(columns.width(), rows));
            let read = copy(session, task, roster, rows, |rows| {
                let chunks = rows.store_mut().take_full();
                let names = rows.store_mut().names();
                chunks.into_iter().all(|chunk| held.push(batch::packed(columns, names, chunk)))
            })?;
            let Some(rows) = read else { return Ok(false) };
            let (names, chunks) = rows.finish().0.finish();
            for chunk in chunks {
                held.push(batch::packed(columns, &names, chunk));
            }
            Ok(held.release())
        }
        Layout::Wide { rows: most } => {
            let mut held = Held::new(&mut deliver);
            let rows = TypedRows::new(Arc::clone(columns), Arc::clone(&plan.filter));
            let read = copy(session, task, roster, rows, |rows| {
                rows.rows() < most || held.push(rows.take())
            })?;
            let Some(mut rows) = read else { return Ok(false) };
            if rows.rows() > 0 {
                held.push(rows.take());
            }
            Ok(held.release())
        }
    }
}

/// Decodes the rows of a task. `each` looks at them after every message, and says `false` when no
/// more are wanted: the answer is then `None`.
fn copy<R: DecodeRow>(
    session: &mut Session,
    task: &Task,
    roster: &Roster,
    rows: R,
    mut each: impl FnMut(&mut R) -> bool,
) -> Result<Option<R>, LoadError> {
    let place = rows.columns().place.clone();
    let (mut bytes, mut told) = (0, (0, 0));
    let mut unwanted = false;
    let mut decoder = CopyDecoder::new(rows);
    let copied = session.copy_out(&task.copy, &place, |data| {
        decoder.feed(data)?;
        bytes += data.len() as u64;
        if decoder.seen() - told.0 >= COUNT_EVERY {
            roster.count(decoder.seen() - told.0, bytes - told.1);
            told = (decoder.seen(), bytes);
        }
        if each(decoder.rows_mut()) {
            Ok(ControlFlow::Continue(()))
        } else {
            unwanted = true;
            Ok(ControlFlow::Break(()))
        }
    });
    copied.inspect_err(|_: &LoadError| roster.discount(told.0))?;
    if unwanted {
        return Ok(None);
    }
    roster.count(decoder.seen() - told.0, bytes - told.1);
    let read = decoder.seen();
    let rows = decoder.finish()?;
    match task.counted {
        Some(counted) if counted != read => Err(LoadError::Unstable { place, counted, read }),
        _ => Ok(Some(rows)),
    }
}

/// Record batches of a task that is not done yet.
struct Held<'a> {
    deliver: &'a mut dyn FnMut(Part) -> bool,
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl<'a> Held<'a> {
    fn new(deliver: &'a mut dyn FnMut(Part) -> bool) -> Self {
        Held { deliver, batches: Vec::new(), bytes: 0 }
    }

    /// Takes a batch; says `false` when nobody wants it any more.
    fn push(&mut self, batch: RecordBatch) -> bool {
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        self.bytes <= HOLD_BYTES || self.release()
    }

    fn release(&mut self) -> bool {
        self.batches.drain(..).all(|batch| (self.deliver)(Part::Batch(batch)))
    }
}
