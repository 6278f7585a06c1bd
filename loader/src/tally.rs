//! [`Tally`]: what the cells of one text column are, over all rows.
//!
//! One cell that is no number makes a column text, since nothing is guessed about what it might
//! have meant. A column that would otherwise be numbers is then told of, with its first such cell.
//! Truth values are 1 and 0 where a column holds nothing else; among numbers they are no numbers.

use crate::{
    columns::{Content, EMPTY, TableColumn},
    files::SourceFile,
    wide::{is_missing, parse_number},
};
use arrow::array::StringArray;
use millstream_data::{ColumnKind, plain_file};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

/// Counts the cells of a column.
#[derive(Debug)]
pub(crate) struct Tally<'a> {
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

impl<'a> Tally<'a> {
    pub(crate) fn new(is_value: bool, na: &'a [String]) -> Self {
        Tally {
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
    pub(crate) fn describe(&self, name: &str, lines: &Lines) -> TableColumn {
        let filled = self.numbers + self.unknown + self.truths;
        let (content, kind, left_out) = match (self.odd(), filled) {
            _ if !self.is_value => (Content::Other, "text", None),
            (Some(odd), _) => (Content::Other, "text", self.surprises().then(|| odd.tell(lines))),
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
    fn tell(&self, lines: &Lines) -> String {
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

/// The lines on which rows begin, of all cells that will be told of: each file is read once for
/// them, however many columns there are.
#[derive(Debug, Default)]
pub(crate) struct Lines(HashMap<PathBuf, BTreeMap<u64, u64>>);

impl Lines {
    /// Those of the cells that these columns will tell of.
    pub(crate) fn of(tallies: &[Tally<'_>]) -> Self {
        let mut rows: HashMap<&Path, BTreeSet<u64>> = HashMap::new();
        for tally in tallies.iter().filter(|tally| tally.is_value && tally.surprises()) {
            if let Some(odd) = tally.odd() {
                rows.entry(&odd.file).or_default().insert(odd.row);
            }
        }
        let lines = rows.into_iter().map(|(file, rows)| {
            // Where they cannot be found, the number of the row will do.
            (file.to_owned(), lines_of(file, &rows).unwrap_or_default())
        });
        Lines(lines.collect())
    }

    fn get(&self, file: &Path, row: u64) -> Option<u64> {
        self.0.get(file)?.get(&row).copied()
    }
}

/// The line on which a row begins, from 1; `None` where it cannot be found.
pub(crate) fn line_of(file: &Path, row: u64) -> Option<u64> {
    lines_of(file, &BTreeSet::from([row])).ok()?.get(&row).copied()
}

/// The line on which each row begins, from 1. Quoted cells may span lines, and empty lines are no
/// rows.
fn lines_of(file: &Path, wanted: &BTreeSet<u64>) -> std::io::Result<BTreeMap<u64, u64>> {
    let mut reader = BufReader::new(plain_file::open(file)?);
    let (mut text, mut quoted) = (Vec::new(), false);
    let mut found = BTreeMap::new();
    // The header is a row, too.
    let (mut line, mut rows) = (0, 0_u64);
    while found.len() < wanted.len() && reader.read_until(b'\n', &mut text)? > 0 {
        line += 1;
        let empty = text.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
        if !quoted && !empty {
            let row = rows.checked_sub(1).filter(|row| wanted.contains(row));
            found.extend(row.map(|row| (row, line)));
            rows += 1;
        }
        quoted ^= text.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
        text.clear();
    }
    Ok(found)
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

    #[test]
    fn lines_are_counted_as_an_editor_counts_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        std::fs::write(&file, "a,b\n1,\"x\ny\"\n\n2,\"q\"\"q\"\r\n3,z").unwrap();
        let lines = lines_of(&file, &(0..4).collect()).unwrap();
        assert_eq!(lines, BTreeMap::from([(0, 2), (1, 5), (2, 6)]));
    }
}
