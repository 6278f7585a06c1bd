//! How many samples a gigabyte holds: as windows, each with its own copy of its rows, or as rows.

use crate::{
    finding::Finding,
    harness::Failure,
    workload::{self, Size, TARGET, Windows},
};
use millstream_loader::{SourceSettings, import};
use millstream_stage::Warnings;
use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    ops::ControlFlow,
    path::Path,
};

/// Windows that are written, to see what they take.
const WRITTEN: u64 = 10_000;

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let folder = tempfile::tempdir()?;
    let cache = folder.path().join("cache");
    let source = workload::source(size.series, size.rows)?;
    let source = SourceSettings { cache: cache.display().to_string(), ..source };
    let imported = import(
        &source,
        &[TARGET.to_owned()],
        &mut |_| ControlFlow::Continue(()),
        &Warnings::default(),
    )?;
    let as_rows = bytes_in(&cache)?;

    let panel = workload::load(source)?;
    let windows = Windows::new(&panel, &workload::learn_from_all(), &workload::settings())?;
    let path = folder.path().join("windows.f32");
    let mut file = BufWriter::new(File::create(&path)?);
    let written = windows.train.len().min(WRITTEN);
    for position in 0..written {
        let window = windows.train.at(position);
        // The outcome is the first column of the row after the window.
        let outcome = &windows.rows.inputs(window.row + 1, 1)[..1];
        for value in windows.rows.inputs(window.first, window.rows()).iter().chain(outcome) {
            file.write_all(&value.to_ne_bytes())?;
        }
    }
    file.into_inner()?.sync_all()?;
    let as_windows = fs::metadata(&path)?.len();

    let per_gb = |samples: u64, bytes: u64| samples as f64 / (bytes as f64 / 1e9);
    let [before, after] = [per_gb(written, as_windows), per_gb(windows.train.len(), as_rows)];
    Ok(Finding {
        measured: Some(after / before),
        losses: None,
        how: format!(
            "bytes on disk: {written} windows of 60 rows written out with their outcome, {before:.0} \
             samples per GB; the loader's cached panel of {} rows with {} windows, {after:.0}",
            imported.rows,
            windows.train.len()
        ),
        reason: None,
    })
}

fn bytes_in(folder: &Path) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { bytes_in(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}
