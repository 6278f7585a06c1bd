//! Source files that somebody writes to while they are read.

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use millstream_loader::{LoadError, Loader, SourceKind, SourceSettings};
use millstream_stage::Source;
use parquet::arrow::ArrowWriter;
use std::{
    fs::{self, File},
    io::Write,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

/// More rows than a reader takes at a time, and more bytes than it buffers.
const ROWS: i64 = 100_000;

fn write_csv(path: &Path) {
    let rows = (0..ROWS).map(|n| format!("{n},{}\n", n as f64 / 7.0));
    fs::write(path, "trade_date,close_pct\n".to_owned() + &rows.collect::<String>()).unwrap();
}

fn write_parquet(path: &Path) {
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let values: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|n| n as f64 / 7.0)));
    let batch = RecordBatch::try_from_iter([("trade_date", times), ("close_pct", values)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Cut at the end of a line, if it has lines: nothing in what is left tells that it was cut.
fn truncate(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let half = &bytes[..bytes.len() / 2];
    let end = half.iter().rposition(|byte| *byte == b'\n').map_or(half.len(), |at| at + 1);
    File::options().write(true).open(path).unwrap().set_len(end as u64).unwrap();
}

fn append(path: &Path) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(format!("{ROWS},1\n").as_bytes()).unwrap();
}

/// As editors and `mv` do it: the file that is being read stays whole, and is no longer there.
fn replace(path: &Path) {
    let other = path.with_extension("new");
    fs::copy(path, &other).unwrap();
    fs::rename(&other, path).unwrap();
}

fn check(kind: SourceKind, write: fn(&Path), change: fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache) = (dir.path().join("t"), dir.path().join("cache"));
    write(&file);
    let settings = SourceSettings {
        kind,
        path: Some(file.to_str().unwrap().to_owned()),
        series: None,
        cache: cache.to_str().unwrap().to_owned(),
        ..SourceSettings::default()
    };
    let (changed, mut first) = (file.clone(), true);
    let mut loader = Loader::new(settings.clone(), Vec::new()).on_progress(Box::new(move |_| {
        if std::mem::replace(&mut first, false) {
            change(&changed);
        }
        ControlFlow::Continue(())
    }));
    let error = loader.next().expect_err("the file changed while it was read");
    assert!(matches!(error, LoadError::FileChanged { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(file.to_str().unwrap()) && text.contains("run again"), "{text}");
    let visible = |name: &str| !name.starts_with('.');
    let entries = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = entries.filter(|name| visible(name.to_str().unwrap())).collect();
    assert!(left.is_empty(), "nothing is cached: {left:?}");

    write(&file);
    let panel = Loader::new(settings, Vec::new()).next().unwrap().unwrap();
    assert_eq!(panel.row_count() as i64, ROWS, "run again, it is read whole");
}

#[test]
fn a_file_that_is_cut_short_while_it_is_read_is_noticed() {
    check(SourceKind::Csv, write_csv, truncate);
    check(SourceKind::Parquet, write_parquet, truncate);
}

#[test]
fn a_file_that_grows_or_is_replaced_while_it_is_read_is_noticed() {
    check(SourceKind::Csv, write_csv, append);
    check(SourceKind::Csv, write_csv, replace);
    check(SourceKind::Parquet, write_parquet, replace);
}
