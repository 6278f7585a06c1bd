//! Checksums per MiB of a file: taken while it is written, compared when it is opened.
//!
//! xxh3 finds accidents (a bad disk, a half-copied folder), not forgeries.

use std::io::{self, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that share a checksum.
const MIB: usize = 1 << 20;

/// Passes bytes on and remembers the checksum of every MiB.
pub(crate) struct ChecksumWriter<W> {
    inner: W,
    hash: Xxh3,
    in_mib: usize,
    bytes: u64,
    checksums: Vec<String>,
}

impl<W: Write> ChecksumWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        ChecksumWriter { inner, hash: Xxh3::new(), in_mib: 0, bytes: 0, checksums: Vec::new() }
    }

    /// What was written to, the number of bytes, and the checksums.
    pub(crate) fn finish(mut self) -> (W, u64, Vec<String>) {
        if self.in_mib > 0 {
            self.close_mib();
        }
        (self.inner, self.bytes, self.checksums)
    }

    fn close_mib(&mut self) {
        self.checksums.push(format(self.hash.digest()));
        self.hash.reset();
        self.in_mib = 0;
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(&bytes[..bytes.len().min(MIB - self.in_mib)])?;
        self.hash.update(&bytes[..written]);
        self.in_mib += written;
        self.bytes += written as u64;
        if self.in_mib == MIB {
            self.close_mib();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// The first MiB that does not have its checksum.
pub(crate) fn first_damaged(bytes: &[u8], checksums: &[String]) -> Option<usize> {
    let found = bytes.chunks(MIB).map(|mib| format(xxh3_64(mib)));
    let differing = found.zip(checksums).position(|(found, expected)| found != *expected);
    let covered = checksums.len() == bytes.len().div_ceil(MIB);
    differing.or((!covered).then_some(checksums.len()))
}

fn format(checksum: u64) -> String {
    format!("{checksum:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(length: usize, step: usize, mibs: usize) {
        let bytes: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let mut writer = ChecksumWriter::new(Vec::new());
        bytes.chunks(step).for_each(|part| writer.write_all(part).unwrap());
        let (written, count, checksums) = writer.finish();
        assert_eq!((written.len(), count, checksums.len()), (length, length as u64, mibs));
        assert_eq!(first_damaged(&bytes, &checksums), None);
        if let Some(last) = length.checked_sub(1) {
            let mut damaged = bytes;
            damaged[last] ^= 1;
            assert_eq!(first_damaged(&damaged, &checksums), Some(mibs - 1));
        }
    }

    #[test]
    fn writing_in_any_steps_gives_the_checksums_that_reading_finds() {
        check(0, 1, 0);
        check(1, 1, 1);
        check(MIB, 1000, 1);
        check(MIB + 1, 3 * MIB, 2);
        check(3 * MIB, 3 * MIB, 3);
    }

    #[test]
    fn a_missing_checksum_is_damage() {
        assert_eq!(first_damaged(&[0; 10], &[]), Some(0));
    }
}
