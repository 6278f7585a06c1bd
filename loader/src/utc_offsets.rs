//! [`UtcOffsets`]: whether some times of a text column have a UTC offset and others have none.
//!
//! Each of them can be read, those without as UTC; but who writes both may have meant his own clock
//! by those without, and nobody can tell. Other columns are of one kind by their type.

use crate::{files::SourceFile, request::Request, time};
use std::path::Path;

/// Finds the line of a file on which a row begins.
pub(crate) type LineOf = fn(&Path, u64) -> Option<u64>;

/// What was seen of the times of a text column.
#[derive(Debug, Default)]
pub(crate) struct UtcOffsets {
    /// Files that were begun.
    files: usize,
    has_offset: bool,
    first_plain: Option<Plain>,
}

/// A time without an offset.
#[derive(Debug)]
struct Plain {
    /// The file, by its place among all.
    file: usize,
    /// From 0, without a header.
    row: u64,
    text: String,
}

impl UtcOffsets {
    /// Says that the next times are from the next file.
    pub(crate) fn enter(&mut self) {
        self.files += 1;
    }

    /// Looks at a time that could be read, in this row of the file.
    pub(crate) fn see(&mut self, text: &str, row: u64) {
        if time::has_offset(text) {
            self.has_offset = true;
        } else if self.first_plain.is_none() {
            let (file, text) = (self.files.saturating_sub(1), text.trim().to_owned());
            self.first_plain = Some(Plain { file, row, text });
        }
    }

    /// What to say about the times; nothing, where they are all of one kind.
    pub(crate) fn warning(&self, request: &Request<'_>, line_of: Option<LineOf>) -> Option<String> {
        let Plain { file, row, text } = self.first_plain.as_ref().filter(|_| self.has_offset)?;
        let file = request.files.get(*file)?;
        let (place, column) = (place(file, *row, line_of), &request.settings.time);
        Some(format!(
            "column {column:?} holds times with and without a UTC offset: {place} holds {text:?}, which is taken as UTC, as are all without; write all of them with an offset, or none"
        ))
    }
}

/// Where a row is, as an editor counts where that can be told.
fn place(file: &SourceFile, row: u64, line_of: Option<LineOf>) -> String {
    let path = file.path();
    match line_of.and_then(|line_of| line_of(path, row)) {
        Some(line) => format!("line {line} of {}", path.display()),
        None => format!("row {} of {}", row + 1, path.display()),
    }
}
