//! One shard as an Arrow IPC file: uncompressed, 64-byte aligned, a single record batch.
//!
//! Any Arrow reader can open it. Ours maps it and uses the values where they lie.

use crate::{
    LoadError,
    cache_damage::CacheDamage,
    cache_folder::Shared,
    checksum::{ChecksumWriter, first_damaged},
    manifest::ShardFile,
    mapped_file,
};
use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    error::ArrowError,
    ipc::{
        MetadataVersion,
        convert::try_fb_to_schema,
        reader::{FileDecoder, read_footer_length},
        root_as_footer,
        writer::{FileWriter, IpcWriteOptions},
    },
};
use millstream_data::{Shard, plain_file, shard_schema};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
    sync::Arc,
};

/// Alignment of every buffer in the file, and so in the mapping.
const ALIGNMENT: usize = 64;

/// Writes a shard and makes sure it is on disk.
pub(crate) fn write(
    folder: &Path,
    name: String,
    shard: &Shard,
    width: usize,
) -> Result<ShardFile, LoadError> {
    let path = folder.join(&name);
    let failed = |source| LoadError::WriteCache { path: path.clone(), source };
    let encode = |writer: &mut ChecksumWriter<BufWriter<File>>| -> Result<(), ArrowError> {
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
        let schema = shard_schema(width);
        let mut file = FileWriter::try_new_with_options(writer, &schema, options)?;
        file.write(&shard.to_record_batch(width))?;
        file.finish()
    };
    let file = File::create_new(&path).map_err(failed)?;
    let mut writer = ChecksumWriter::new(BufWriter::with_capacity(1 << 20, file));
    encode(&mut writer).map_err(|error| match error {
        ArrowError::IoError(_, source) => failed(source),
        other => failed(io::Error::other(other)),
    })?;
    let (mut writer, bytes, checksums) = writer.finish();
    writer.flush().and_then(|()| writer.get_ref().sync_all()).map_err(failed)?;
    Ok(ShardFile { file: name, rows: shard.rows() as u64, bytes, checksums })
}

/// Maps a shard and compares its checksums, which reads it once.
pub(crate) fn open(
    folder: &Path,
    entry: &ShardFile,
    shared: &Shared,
) -> Result<RecordBatch, LoadError> {
    let path = folder.join(&entry.file);
    let map = || -> std::io::Result<(u64, Option<Buffer>)> {
        let file = plain_file::open(&path)?;
        let found = file.metadata()?.len();
        let whole = found == entry.bytes;
        Ok((found, if whole { Some(mapped_file::map(&file, shared)?) } else { None }))
    };
    let buffer = match map() {
        Ok((_, Some(buffer))) => buffer,
        Ok((found, None)) => {
            let (mib, expected) = (found.min(entry.bytes) >> 20, entry.bytes);
            return Err(CacheDamage::Length { path, mib, found, expected }.into());
        }
        Err(source) => return Err(LoadError::ReadCache { path, source }),
    };
    if let Some(mib) = first_damaged(&buffer, &entry.checksums) {
        return Err(CacheDamage::Checksum { path, mib }.into());
    }
    decode(&buffer).map_err(|source| CacheDamage::NotAShard { path, source }.into())
}

/// The only record batch of an IPC file, sharing the buffer's memory.
fn decode(file: &Buffer) -> Result<RecordBatch, ArrowError> {
    let broken = |what: &str| ArrowError::IpcError(what.to_owned());
    let (rest, end) =
        file.split_last_chunk::<10>().ok_or_else(|| broken("the file has no footer"))?;
    let start = rest
        .len()
        .checked_sub(read_footer_length(*end)?)
        .ok_or_else(|| broken("the footer is longer than the file"))?;
    let footer =
        root_as_footer(&rest[start..]).map_err(|error| broken(&format!("footer: {error}")))?;
    let schema = footer.schema().ok_or_else(|| broken("the footer has no schema"))?;
    let blocks = footer.recordBatches().ok_or_else(|| broken("the file has no record batch"))?;
    if blocks.len() != 1 {
        return Err(broken("the file has more or less than one record batch"));
    }
    let block = blocks.get(0);
    let at = usize::try_from(block.offset()).ok();
    let length = usize::try_from(i64::from(block.metaDataLength()) + block.bodyLength()).ok();
    let (at, length) = at
        .zip(length)
        .filter(|(at, length)| at.checked_add(*length).is_some_and(|end| end <= file.len()))
        .ok_or_else(|| broken("the record batch lies outside the file"))?;
    FileDecoder::new(Arc::new(try_fb_to_schema(schema)?), footer.version())
        .with_require_alignment(true)
        .read_record_batch(block, &file.slice_with_length(at, length))?
        .ok_or_else(|| broken("the record batch is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_folder::Partial;
    use arrow::array::{Array, AsArray};

    fn shared(dir: &Path) -> Shared {
        Partial::reserve(dir, "k").unwrap().share(dir).unwrap()
    }

    #[test]
    fn an_opened_shard_is_the_mapped_file_and_aligned() {
        let dir = tempfile::tempdir().unwrap();
        let rows = 1_000_u16;
        let values: Vec<f32> = (0..rows * 3).map(f32::from).collect();
        let shard = Shard::new(vec![0; 1_000], (0..1_000).collect(), values.clone(), 3);
        let entry = write(dir.path(), "s.arrow".to_owned(), &shard, 3).unwrap();
        let batch = open(dir.path(), &entry, &shared(dir.path())).unwrap();
        let list = batch.column(2).as_fixed_size_list();
        let found = list.values().to_data();
        let buffer = &found.buffers()[0];
        assert_eq!(buffer.typed_data::<f32>(), values);
        assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
        // A buffer that was copied would own less than the whole file.
        assert_eq!(buffer.capacity() as u64, entry.bytes);
    }
}
