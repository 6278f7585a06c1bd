//! A few rows of a table of forecasts as text, at most 80 columns wide.

use arrow::{
    array::{Array, RecordBatch},
    util::display::array_value_to_string,
};
use millstream::grouped;
use std::fmt::Write;

const WIDTH: usize = 80;

/// Longer names and texts are cut.
const WIDEST_CELL: usize = 24;

/// Rows that stand before those that are left out.
const FIRST: usize = 5;

/// A column with its cells.
struct Column {
    name: String,
    cells: Vec<String>,
    is_number: bool,
}

/// Rows of a table of which there are so many in all: the first of them and the last, and between them a
/// line that says how many are left out.
pub(crate) fn table(rows: &[RecordBatch], all: u64) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let shown: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let columns = (0..first.num_columns()).map(|at| Column::of(rows, at));
    let (mut left, mut cut, mut fitting) = (WIDTH, 0, Vec::new());
    for column in columns {
        let width = column.width() + if fitting.is_empty() { 0 } else { 2 };
        // Once one does not fit, those after it would seem to stand beside others than they do.
        if width <= left && cut == 0 {
            left -= width;
            fitting.push(column);
        } else {
            cut += 1;
        }
    }
    let mut text = String::new();
    line(&mut text, fitting.iter().map(|column| column.aligned(&column.name)));
    let gap = (all > shown as u64).then_some(FIRST);
    for row in 0..shown {
        if gap == Some(row) {
            text += &format!("… {} more\n", grouped(all - shown as u64));
        }
        line(&mut text, fitting.iter().map(|column| column.aligned(&column.cells[row])));
    }
    match cut {
        0 => {}
        1 => text += "and 1 column that has no room here\n",
        cut => text += &format!("and {cut} columns that have no room here\n"),
    }
    text
}

impl Column {
    fn of(rows: &[RecordBatch], at: usize) -> Self {
        let schema = rows[0].schema();
        let field = schema.field(at);
        let cells = rows.iter().flat_map(|rows| {
            let column = rows.column(at);
            (0..rows.num_rows()).map(move |row| cell(column, row)).collect::<Vec<_>>()
        });
        Column {
            name: shortened(field.name()),
            cells: cells.collect(),
            is_number: field.data_type().is_numeric(),
        }
    }

    fn width(&self) -> usize {
        let widths = self.cells.iter().chain([&self.name]).map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    }

    fn aligned(&self, cell: &str) -> String {
        let width = self.width();
        if self.is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    }
}

/// A value as text; nothing is `-`.
fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    // Of what a table of forecasts is made, all has a text.
    let text = array_value_to_string(column, row).unwrap_or_default();
    // At midnight it is a day.
    let text = text.strip_suffix("T00:00:00").map_or(text.clone(), str::to_owned);
    shortened(&text.replace(char::is_control, " "))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(WIDEST_CELL) {
        None => text.to_owned(),
        Some(_) => text.chars().take(WIDEST_CELL - 1).chain(['…']).collect(),
    }
}

fn line(text: &mut String, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    writeln!(text, "{}", cells.join("  ").trim_end()).expect("writing to a string cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Date32Array, Float32Array, Int32Array, StringArray};
    use std::sync::Arc;

    fn rows(count: usize, names: &[&str]) -> RecordBatch {
        let steps: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=count as i32));
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("symbol", Arc::new(StringArray::from(vec!["AAPL"; count]))),
            ("day", Arc::new(Date32Array::from_iter_values((0..).take(count)))),
            ("step", steps),
        ];
        for name in names {
            let values = (0..count).map(|row| (row != 1).then_some(row as f32 * 12.5));
            columns.push((name, Arc::new(values.collect::<Float32Array>())));
        }
        let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_a_dash() {
        let expected = "\
symbol  day         step     y
AAPL    1970-01-01     1   0.0
AAPL    1970-01-02     2     -
AAPL    1970-01-03     3  25.0
";
        assert_eq!(table(&[rows(3, &["y"])], 3), expected);
        assert_eq!(table(&[], 0), "");
    }

    #[test]
    fn what_is_left_out_is_said_where_it_is() {
        let batch = rows(8, &["y"]);
        let text = table(&[batch.slice(0, 5), batch.slice(5, 3)], 12_345);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[6]), (10, "… 12,337 more"), "{text}");
        assert!(!table(&[batch.slice(0, 5), batch.slice(5, 3)], 8).contains("more"));
    }

    #[test]
    fn it_is_no_wider_than_80_columns() {
        let names: Vec<String> = (0..6).map(|at| format!("a_target_{at}_forecast")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = table(&[rows(4, &names)], 4);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.ends_with("and 4 columns that have no room here\n"), "{text}");
        let long = "a name that is much longer than any column may be";
        assert!(table(&[rows(4, &[long])], 4).contains("a name that is much lon…"));
    }
}
