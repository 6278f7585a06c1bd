//! [`CellCounts`]: what the cells of one text column are, over all rows.
//!
//! One cell that is no number makes a column text, since nothing is guessed about what it might
//! have meant. A column that would otherwise be numbers is then told of, with its first such cell.
//! Truth values are 1 and 0 where a column holds nothing else; among numbers they are no numbers.

use super::row_lines::RowLines;
use crate::{
    columns::{Content, EMPTY, TableColumn},
    files::SourceFile,
    text_number::{is_missing, parse_number},
};
use arrow::array::StringArray;
use millstream_data::ColumnKind;
use std::path::{Path, PathBuf};

/// Counts the cells of a column.
#[derive(Debug)]
pub(crate) struct CellCounts<'a> {
    /// Whether it may be a feature or target; other columns are not looked at.
    is_value: bool,
    na: &'a [String],
    numbers: u64,
    /// `NaN`, which is missing among numbers and among truth values.
    unknown: u64,
    truths: u64,
    texts: u64,
    /// Texts that a person would call a number: `1,234` or `5%`.
    nearly: u64,
    first: Option<Cell>,
    first_truth: Option<Cell>,
    /// Whether all texts are the same.
    alike: bool,
}

/// A cell that is no number.
#[derive(Debug)]
struct Cell {
    file: PathBuf,
    /// From 0, without the header.
    row: u64,
    text: String,
}

impl<'a> CellCounts<'a> {
    pub(crate) fn new(is_value: bool, na: &'a [String]) -> Self {
        CellCounts {
            is_value,
            na,
            numbers: 0,
            unknown: 0,
            truths: 0,
            texts: 0,
            nearly: 0,
            first: None,
            first_truth: None,
            alike: true,
        }
    }

    /// Counts more cells, the first of which is in row `rows` of the file.
    pub(crate) fn add(&mut self, cells: &StringArray, file: &SourceFile, rows: u64) {
        if !self.is_value {
            return;
        }
        for (row, text) in cells.iter().enumerate() {
            let text = text.unwrap_or_default().trim();
            if is_missing(text, self.na) {
                continue;
            }
            let cell = || Cell {
                file: file.path().to_path_buf(),
                row: rows + row as u64,
                text: text.to_owned(),
            };
            match parse_number(text, &[]) {
                Some(number) if number.is_nan() => self.unknown += 1,
                Some(_) if is_truth(text) => {
                    self.truths += 1;
                    self.first_truth.get_or_insert_with(cell);
                }
                Some(_) => self.numbers += 1,
                None => {
                    self.texts += 1;
                    self.nearly += u64::from(is_nearly_a_number(text));
                    match &self.first {
                        Some(first) => self.alike &= first.text == text,
                        None => self.first = Some(cell()),
                    }
                }
            }
        }
    }

    /// What the column can be used for.
    pub(crate) fn describe(&self, name: &str, lines: &RowLines) -> TableColumn {
        let filled = self.numbers + self.unknown + self.truths;
        let (content, kind, left_out) = match (self.odd(), filled) {
            _ if !self.is_value => (Content::Other, "text", None),
            (Some(odd), _) => {
                (Content::Other, "text", self.surprises().then(|| odd.describe(lines)))
            }
            (None, 0) => (Content::OnRequest, "empty", Some(EMPTY.to_owned())),
            (None, _) => (Content::Numbers, "numbers", None),
        };
        let truths = self.truths > 0 && self.numbers == 0;
        TableColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            content,
            measure: if truths { ColumnKind::Boolean } else { ColumnKind::Number },
            left_out,
        }
    }

    /// The row, and its file, that [`describe`](Self::describe) will tell the line of.
    pub(crate) fn row_to_name(&self) -> Option<(&Path, u64)> {
        let odd = self.odd().filter(|_| self.is_value && self.surprises())?;
        Some((odd.file.as_path(), odd.row))
    }

    /// The first cell that keeps the column from being numbers: a text, or a truth value among them.
    fn odd(&self) -> Option<&Cell> {
        let mixed = || self.first_truth.as_ref().filter(|_| self.numbers > 0);
        self.first.as_ref().or_else(mixed)
    }

    /// Whether somebody may take the column for one of numbers: most cells look like some, or all
    /// that do not are the same text, which will mean "missing".
    fn surprises(&self) -> bool {
        let numbers = self.numbers + self.unknown + self.truths;
        2 * (numbers + self.nearly) >= numbers + self.texts || (numbers > 0 && self.alike)
    }
}

impl Cell {
    fn describe(&self, lines: &RowLines) -> String {
        let place = match lines.get(&self.file, self.row) {
            Some(line) => format!("line {line} of {}", self.file.display()),
            None => format!("row {} of {}", self.row + 1, self.file.display()),
        };
        let text = &self.text;
        format!(
            "{place} holds {text:?}, which is no number; write it as one, add {text:?} to source.na if it means \"missing\", or list the features without this column"
        )
    }
}

/// Whether what can be read as a number is a word that says yes or no; `inf` is not.
fn is_truth(text: &str) -> bool {
    text.as_bytes()[0].is_ascii_alphabetic() && !is_float(text)
}

fn is_float(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Whether a text is a number with signs of thousands, percent or money in it.
fn is_nearly_a_number(text: &str) -> bool {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let bare =
        text.replace([',', '\'', '_', ' ', '\u{a0}', '\u{202f}', '%', '$', '€', '£', '¥'], "");
    is_float(bare.trim_start_matches('(').trim_end_matches(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_would_call_a_number_nearly_is_one() {
        for text in ["1,234", "5%", "$ 1_000.5", "(12)", "1'000", "-3 %"] {
            assert!(is_nearly_a_number(text), "{text}");
        }
        for text in ["2020-01-02", "Q1", "n/a", "%", "10:30", "A1"] {
            assert!(!is_nearly_a_number(text), "{text}");
        }
    }
}
