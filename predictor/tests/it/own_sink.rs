//! A sink that the crate does not know: it gets every row, finishes or is dropped, and may fail.

use crate::sample::{batches, checkpoint, contract, plan, predictor};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millstream_data::TimeKind;
use millstream_predictor::{ForecastSink, Output, WriteError};
use millstream_stage::{Ending, Sink};
use std::{cell::RefCell, path::PathBuf, rc::Rc};

/// What was asked of the sink.
#[derive(Debug, Default)]
struct Seen {
    columns: usize,
    rows: Vec<usize>,
    finished: bool,
    dropped: bool,
}

struct Memory {
    seen: Rc<RefCell<Seen>>,
    room: usize,
}

impl ForecastSink for Memory {
    fn write(&mut self, rows: &RecordBatch) -> Result<(), WriteError> {
        let mut seen = self.seen.borrow_mut();
        seen.rows.push(rows.num_rows());
        if seen.rows.iter().sum::<usize>() > self.room { Err("it is full".into()) } else { Ok(()) }
    }

    fn finish(self: Box<Self>) -> Result<Option<PathBuf>, WriteError> {
        self.seen.borrow_mut().finished = true;
        Ok(None)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.seen.borrow_mut().dropped = true;
    }
}

fn memory(room: usize) -> (Output, Rc<RefCell<Seen>>) {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let kept = Rc::clone(&seen);
    let open = move |schema: &SchemaRef| {
        kept.borrow_mut().columns = schema.fields().len();
        Ok(Box::new(Memory { seen: kept, room }) as Box<dyn ForecastSink>)
    };
    (Output::sink(open), seen)
}

#[test]
fn it_gets_all_rows_and_is_finished_or_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    for (ending, finishes) in [(Ending::Drained, true), (Ending::Interrupted, false)] {
        let (output, seen) = memory(6);
        let mut predictor = predictor(folder.path(), output);
        for batch in batches(&plan(&contract)) {
            let _flow = predictor.accept(batch).unwrap();
        }
        let report = predictor.finish(ending).unwrap();
        assert_eq!((report.rows, report.output), (6, None));
        let seen = seen.borrow();
        assert_eq!((seen.columns, &seen.rows[..]), (8, &[4, 2][..]));
        assert_eq!((seen.finished, seen.dropped), (finishes, true));
    }
}

#[test]
fn what_it_does_not_take_ends_the_prediction() {
    let folder = tempfile::tempdir().unwrap();
    let contract = contract(Some("symbol"), TimeKind::Date);
    checkpoint(folder.path(), &contract);
    let (output, seen) = memory(4);
    let mut predictor = predictor(folder.path(), output);
    let [first, second] = batches(&plan(&contract)).try_into().unwrap();
    let _flow = predictor.accept(first).unwrap();
    let error = predictor.accept(second).unwrap_err().to_string();
    assert_eq!(error, "the forecasts were not taken: it is full");
    drop(predictor);
    assert!(seen.borrow().dropped && !seen.borrow().finished);
}
