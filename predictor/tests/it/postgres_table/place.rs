//! A server, a table on it, and rows to write there.

use crate::support::server::{Options, Server};
use arrow::array::{ArrayRef, Date32Array, Float32Array, Int32Array, RecordBatch, StringArray};
use millstream_predictor::{PostgresTable, WriteError};
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// A server of this test's own.
pub(crate) struct Place {
    server: Server,
}

impl Place {
    pub(crate) fn start() -> Self {
        Place { server: Server::with(&Options::default()) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket().unwrap()
    }

    /// A URL that leads there, as this role.
    pub(crate) fn url(&self, role: &str) -> String {
        let socket = self.socket();
        let folder = socket.parent().unwrap().display().to_string();
        format!("postgres://{role}@/postgres?host={folder}&port={}", self.server.port())
    }

    /// A table there that belongs to a run.
    pub(crate) fn table(&self, name: &str, run: &str, more: &str) -> PostgresTable {
        self.table_of("tester", name, run, more)
    }

    pub(crate) fn table_of(&self, role: &str, name: &str, run: &str, more: &str) -> PostgresTable {
        let name: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let url = format!("{}&table={name}{more}", self.url(role));
        PostgresTable::from_url(&url, "lstm", run).unwrap()
    }

    /// Writes rows to the table `f` for the first run; gives what a person was told.
    pub(crate) fn write(&self, rows: &RecordBatch) -> Result<Vec<String>, WriteError> {
        self.write_as("first", "", rows)
    }

    pub(crate) fn write_as(
        &self,
        run: &str,
        more: &str,
        rows: &RecordBatch,
    ) -> Result<Vec<String>, WriteError> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let table = self.table("f", run, more);
        written(table.warning(move |line| kept.lock().unwrap().push(line)), &[rows])?;
        Ok(std::mem::take(&mut *lines.lock().unwrap()))
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.server.url(), NoTls).unwrap()
    }

    pub(crate) fn run(&self, sql: &str) {
        self.client().batch_execute(sql).unwrap();
    }

    /// The first row of a query, its values with spaces between them; what is null is `-`.
    pub(crate) fn text(&self, sql: &str) -> String {
        text(&mut self.client(), sql)
    }
}

pub(crate) fn text(client: &mut Client, sql: &str) -> String {
    let messages = client.simple_query(sql).unwrap();
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.expect("the query has a row");
    let values = (0..row.len()).map(|column| row.get(column).unwrap_or("-"));
    values.collect::<Vec<_>>().join(" ")
}

/// Forecasts of ten series, by number, all of which say `value`.
pub(crate) fn forecasts(numbers: Range<i32>, value: f32) -> RecordBatch {
    let count = numbers.len();
    let columns: [(&str, ArrayRef); 7] = [
        (
            "symbol",
            Arc::new(StringArray::from_iter_values(
                numbers.clone().map(|n| format!("s{}", n % 10)),
            )),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(numbers.clone().map(|n| n / 20)))),
        ("step", Arc::new(Int32Array::from_iter_values(numbers.clone().map(|n| n / 10 % 2 + 1)))),
        ("target_time", Arc::new(Date32Array::from_iter_values(numbers.map(|n| n / 20 + 1)))),
        ("y_forecast", Arc::new(Float32Array::from(vec![value; count]))),
        ("y_q0.1", Arc::new(Float32Array::from(vec![value; count]))),
        ("y", Arc::new(Float32Array::from(vec![None::<f32>; count]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Writes batches to a table.
pub(crate) fn written(table: PostgresTable, batches: &[&RecordBatch]) -> Result<(), WriteError> {
    let mut sink = table.open(&batches[0].schema())?;
    batches.iter().try_for_each(|rows| sink.write(rows))?;
    sink.finish()?;
    Ok(())
}

/// The line of an error.
pub(crate) fn refusal<T>(written: Result<T, WriteError>) -> String {
    match written {
        Ok(_) => panic!("it was taken"),
        Err(error) => {
            let line = error.to_string();
            assert_eq!(line.lines().count(), 1, "{line}");
            line
        }
    }
}
