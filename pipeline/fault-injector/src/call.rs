//! [`Call`]: one file-changing call, as the library notes it.

use std::path::PathBuf;

/// A call that changed a file, or would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// From 1.
    pub number: usize,
    /// What it does: `open`, `write`, `rename`, `fsync` and so on, whichever of its variants it was.
    pub name: String,
    /// How many bytes it was to write.
    pub bytes: u64,
    /// What it changes; of two paths the new one.
    pub path: PathBuf,
    /// The old path, of a rename or a link.
    pub from: Option<PathBuf>,
}

impl Call {
    /// Whether it writes bytes, and so can be cut in half.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(&*self.name, "write" | "writev" | "sendfile" | "copy_file_range")
    }

    /// A line of the report; `None` for one that a kill has cut short.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let (number, name, bytes) = (next()?.parse().ok()?, next()?, next()?.parse().ok()?);
        let (path, from) = (PathBuf::from(next()?), next()?);
        let from = (!from.is_empty()).then(|| PathBuf::from(from));
        Some(Call { number, name: name.to_owned(), bytes, path, from })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_call_and_half_a_line_is_none() {
        let call = Call::parse("7\trename\t0\t/a/b\t/a/.b").unwrap();
        assert_eq!((call.number, &*call.name), (7, "rename"));
        assert_eq!(call.from.as_deref(), Some("/a/.b".as_ref()));
        assert!(!call.is_write() && Call::parse("8\twrite\t12\t/a/b\t").unwrap().is_write());
        assert_eq!(Call::parse("7\trename\t0"), None);
    }
}
