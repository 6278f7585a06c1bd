//! Opening files that must be plain ones: a pipe in place of a secret would be waited for, and what is
//! checked must be what is read. As `millstream-data` has it, which would bring Arrow along.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Opens a plain file to read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Plain files know no waiting, so the flag concerns nothing but what is refused.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        // Sockets cannot even be opened.
        Some(libc::ENXIO) => refused("a pipe, a socket or a device"),
        _ => error,
    })?;
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(refused("a folder")),
        false if kind.is_fifo() => Err(refused("a pipe")),
        false => Err(refused("a device")),
    }
}

/// All bytes of a plain file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether an error says that there is something, but no plain file.
pub(crate) fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.get_ref().is_some()
}

fn refused(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a plain file"))
}
