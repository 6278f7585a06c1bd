//! [`RowLines`]: on which line of a CSV file a row begins, as an editor counts.

use millstream_data::plain_file;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

/// The lines on which some rows begin: each file is read once for them, however many they are.
#[derive(Debug, Default)]
pub(crate) struct RowLines(HashMap<PathBuf, BTreeMap<u64, u64>>);

impl RowLines {
    /// Those of the given rows of files.
    pub(crate) fn of<'a>(wanted: impl Iterator<Item = (&'a Path, u64)>) -> Self {
        let mut rows: HashMap<&Path, BTreeSet<u64>> = HashMap::new();
        for (file, row) in wanted {
            rows.entry(file).or_default().insert(row);
        }
        let lines = rows.into_iter().map(|(file, rows)| {
            // Where they cannot be found, the number of the row will do.
            (file.to_owned(), lines_of(file, &rows).unwrap_or_default())
        });
        RowLines(lines.collect())
    }

    pub(crate) fn get(&self, file: &Path, row: u64) -> Option<u64> {
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
    fn lines_are_counted_as_an_editor_counts_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv");
        std::fs::write(&file, "a,b\n1,\"x\ny\"\n\n2,\"q\"\"q\"\r\n3,z").unwrap();
        let lines = lines_of(&file, &(0..4).collect()).unwrap();
        assert_eq!(lines, BTreeMap::from([(0, 2), (1, 5), (2, 6)]));
    }
}
