//! A cache file as memory: mapped, not read.
//!
//! The only unsafe code of the crate. Mapping is sound as long as nobody changes the file while it
//! is mapped. The cache keeps to that: a shard is written under another name, and after its rename
//! it is only ever replaced or removed as a whole, which leaves existing mappings alone. Another
//! program that writes into a cache file breaks the promise; nothing can prevent that.

use crate::cache_folder::Shared;
use arrow::buffer::Buffer;
use memmap2::Mmap;
use std::{fs::File, io, ptr::NonNull, sync::Arc};

/// Maps a file; the buffer, and everything sliced from it, keeps the mapping alive, and the share in
/// the folder that it is from.
pub(crate) fn map(file: &File, folder: &Shared) -> io::Result<Buffer> {
    // SAFETY: cache files are not changed in place (see above), so the bytes stay as they are.
    let mapping = unsafe { Mmap::map(file) }?;
    let length = mapping.len();
    let start = NonNull::from(&mapping[..]).cast::<u8>();
    // SAFETY: `start` is valid for `length` bytes until the mapping is dropped, moving a `Mmap`
    // does not move what it maps, and the buffer owns it from here on.
    Ok(unsafe {
        Buffer::from_custom_allocation(start, length, Arc::new((mapping, folder.clone())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_folder::Partial;
    use std::io::Write;

    #[test]
    fn a_mapping_lives_as_long_as_its_last_slice_even_without_its_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..10_000).map(|n| (n % 256) as u8).collect();
        file.write_all(&bytes).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let folder = Partial::reserve(dir.path(), "k").unwrap().share(dir.path()).unwrap();
        let buffer = map(file.as_file(), &folder).unwrap();
        drop(file);
        let slice = buffer.slice(5_000);
        drop(buffer);
        assert_eq!(slice.as_slice(), &bytes[5_000..]);
    }
}
