//! Opening files that must be plain ones.
//!
//! A pipe in place of a file would keep whoever opens it waiting for a writer who never comes, and a
//! folder opens but cannot be read. Both are errors here, at once.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
};

/// Opens a plain file to read.
///
/// # Errors
/// What the system says, or what there is instead of a plain file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// As [`open`], in the way the options say.
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Plain files know no waiting, so the flag concerns nothing but what is refused.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path).map_err(|error| {
        match error.raw_os_error() {
            // Sockets, and pipes that nobody reads, cannot even be opened.
            Some(libc::ENXIO) => refused("a pipe, a socket or a device"),
            Some(libc::EISDIR) => refused("a folder"),
            _ => error,
        }
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
///
/// # Errors
/// As for [`open`], and when it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether an error says that there is something, but no plain file.
pub fn is_refused(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.get_ref().is_some()
}

fn refused(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a plain file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::net::UnixListener, process::Command};

    fn check(path: &Path, expected: &str) {
        for options in [OpenOptions::new().read(true), OpenOptions::new().read(true).write(true)] {
            let error = open_with(options, path).unwrap_err();
            assert!(error.to_string().contains(expected) && is_refused(&error), "{error}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_said_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        check(&pipe, "it is a pipe");
        check(dir.path(), "it is a folder");
        let socket = dir.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        check(&socket, "a socket");
        check(Path::new("/dev/null"), "it is a device");
        let plain = dir.path().join("plain");
        fs::write(&plain, "text").unwrap();
        assert_eq!(read(&plain).unwrap(), b"text");
        assert!(!is_refused(&read(Path::new("/no/such/file")).unwrap_err()));
    }
}
