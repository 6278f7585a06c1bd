//! [`CopyError`]: what a COPY stream can hold that no server should send, or no panel can take.

/// Why a row stream cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The row stream is not what the server's protocol allows.
    #[error(
        "{place}, row {row}: the COPY stream is broken: expected {expected}; is something between here and the server changing the data?"
    )]
    Protocol {
        /// Table or query.
        place: String,
        /// The row, from 1.
        row: u64,
        /// What should have come.
        expected: &'static str,
    },
    /// A field of the row stream does not have the form of its type.
    #[error("{place}, {row}: column {column:?} is not a valid {kind} of {bytes} bytes")]
    Field {
        /// Table or query.
        place: String,
        /// The row, by number in a file and by its keys in a table.
        row: String,
        /// The column.
        column: String,
        /// The type it should have.
        kind: &'static str,
        /// How long it is.
        bytes: usize,
    },
    /// Arrays of a column differ in length.
    #[error(
        "{place}, {row}: the array in column {column:?} has {found} elements and others have {expected}; a block of features needs one length, so pad it or leave the column out"
    )]
    Ragged {
        /// Table or query.
        place: String,
        /// The row, by number in a file and by its keys in a table.
        row: String,
        /// The column.
        column: String,
        /// Elements of this array.
        found: usize,
        /// Elements of the first one.
        expected: usize,
    },
}
