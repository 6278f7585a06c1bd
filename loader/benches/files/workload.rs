//! The table: as a Parquet file, and as the panel that the loader makes of it and caches.

use crate::harness::Failure;
use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use millstream_loader::{SourceKind, SourceSettings, import};
use millstream_stage::Warnings;
use parquet::arrow::ArrowWriter;
use std::{
    fs::{self, File},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// Columns besides series and time.
const FEATURES: usize = 105;

/// Rows of a series.
const ROWS: usize = 1000;

/// The table in its two forms.
pub(crate) struct Work {
    pub(crate) rows: usize,
    /// With the cache on.
    pub(crate) settings: SourceSettings,
    pub(crate) parquet: PathBuf,
    /// The files of the cached panel that hold its rows.
    pub(crate) shards: Vec<PathBuf>,
    /// What the bits of all values add up to.
    pub(crate) sum: u32,
    /// Removes everything at the end.
    _folder: TempDir,
}

impl Work {
    pub(crate) fn new(quick: bool) -> Result<Self, Failure> {
        let series = if quick { 100 } else { 400 };
        let folder = tempfile::tempdir()?;
        let parquet = folder.path().join("table.parquet");
        let sum = write(&parquet, series)?;
        let text = |path: &Path| path.display().to_string();
        let settings = SourceSettings {
            kind: SourceKind::Parquet,
            path: Some(text(&parquet)),
            cache: text(&folder.path().join("cache")),
            ..SourceSettings::default()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let report = import(&settings, &[], go_on, &Warnings::default())?;
        let cache = report.cache.ok_or("the panel was not cached")?;
        let files = fs::read_dir(cache)?.map(|entry| Ok(entry?.path()));
        let mut shards: Vec<PathBuf> = files.collect::<Result<_, std::io::Error>>()?;
        shards.retain(|path| path.extension().is_some_and(|extension| extension == "arrow"));
        if shards.is_empty() {
            return Err("the cached panel has no shard".into());
        }
        Ok(Work { rows: series * ROWS, settings, parquet, shards, sum, _folder: folder })
    }
}

/// Writes the table, a row group for every few series; gives the sum of its bits.
fn write(path: &Path, series: usize) -> Result<u32, Failure> {
    const GROUP: usize = 25;
    let mut writer: Option<ArrowWriter<File>> = None;
    let mut total = 0_u32;
    for first in (0..series).step_by(GROUP) {
        let rows =
            || (first..(first + GROUP).min(series)).flat_map(|s| (0..ROWS).map(move |r| (s, r)));
        let symbols = StringArray::from_iter_values(rows().map(|(s, _)| format!("{s:06}")));
        let times = Int64Array::from_iter_values(rows().map(|(_, r)| r as i64));
        let mut columns: Vec<(String, ArrayRef)> =
            vec![("symbol".into(), Arc::new(symbols)), ("trade_date".into(), Arc::new(times))];
        for column in 0..FEATURES {
            let values = rows().map(|(s, r)| value((s * ROWS + r) * FEATURES + column));
            let values = Float32Array::from_iter_values(values);
            total = total.wrapping_add(sum([values.values().as_ref()].into_iter()));
            columns.push((format!("f{column:03}"), Arc::new(values)));
        }
        let batch = RecordBatch::try_from_iter(columns)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(ArrowWriter::try_new(File::create(path)?, batch.schema(), None)?),
        };
        writer.write(&batch)?;
    }
    if let Some(writer) = writer {
        writer.close()?;
    }
    Ok(total)
}

/// Noise that no encoding makes smaller.
fn value(i: usize) -> f32 {
    let bits = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((bits ^ bits >> 29) >> 40) as f32 / 16_777_216.0 - 0.5
}

/// Adds up the bits of values, in any order.
pub(crate) fn sum<'a>(parts: impl Iterator<Item = &'a [f32]>) -> u32 {
    let add = |sum: u32, value: &f32| sum.wrapping_add(value.to_bits());
    parts.fold(0, |sum, values| values.iter().fold(sum, add))
}

/// The same of bytes as they lie in a file.
pub(crate) fn sum_bytes(bytes: &[u8]) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().fold(0, |sum, word| sum.wrapping_add(u32::from_le_bytes(*word)))
}
