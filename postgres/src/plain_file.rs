//! Reading files that must be plain ones: a pipe in place of a secret would be waited for.

use std::{fs, io, os::unix::fs::FileTypeExt, path::Path};

/// All bytes of a plain file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    match other_kind(path) {
        Some(what) => Err(refused(what)),
        None => fs::read(path),
    }
}

/// What there is instead of a plain file, if anything is.
pub(crate) fn other_kind(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    match kind {
        _ if kind.is_file() => None,
        _ if kind.is_dir() => Some("a folder"),
        _ if kind.is_fifo() => Some("a pipe"),
        _ if kind.is_socket() => Some("a pipe, a socket or a device"),
        _ => Some("a device"),
    }
}

pub(crate) fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a plain file"))
}
