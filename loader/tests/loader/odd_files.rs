//! Source files that are unusual: pipes, names that are no text, codecs, a hundred thousand columns.

use crate::support::{chain, in_time, load};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use millstream_data::Panel;
use millstream_loader::{LoadError, Loader, SourceKind, SourceSettings};
use millstream_stage::{Source, Warnings};
use parquet::{
    arrow::ArrowWriter,
    basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel},
    file::properties::WriterProperties,
};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{BufWriter, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    process::Command,
    sync::Arc,
};

fn settings(kind: SourceKind, path: &Path) -> SourceSettings {
    SourceSettings {
        kind,
        path: Some(path.to_str().unwrap().to_owned()),
        series: None,
        cache: String::new(),
        ..SourceSettings::default()
    }
}

#[test]
fn a_pipe_in_place_of_a_source_is_an_error_and_not_a_wait() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("rows");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for kind in [SourceKind::Csv, SourceKind::Parquet] {
        let settings = settings(kind, &pipe);
        let error = in_time("reading a pipe", move || load(&settings).unwrap_err());
        assert!(matches!(error, LoadError::ReadFile { .. }), "{error}");
        assert!(chain(&error).contains("it is a pipe, not a plain file"), "{}", chain(&error));
    }
    // A folder is a place to look for files in.
    let error = load(&settings(SourceKind::Csv, dir.path())).unwrap_err().to_string();
    assert!(error.contains("matches no file"), "{error}");
}

#[test]
fn endings_are_read_in_any_case_and_what_a_directory_holds_besides_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, cache) = (dir.path().join("rows"), dir.path().join("cache"));
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, day: u32| {
        fs::write(folder.join(name), format!("trade_date,close_pct\n{day},1\n")).unwrap();
    };
    write("notes.txt", 1);
    write("z.csv.gz", 2);
    write(".hidden.csv", 3);
    write(".lock", 4);
    fs::create_dir(folder.join("more.csv")).unwrap();
    let cache = cache.to_str().unwrap().to_owned();
    let settings = SourceSettings { cache, ..settings(SourceKind::Csv, &folder) };
    let error = load(&settings).unwrap_err().to_string();
    assert!(error.contains("matches no file"), "{error}");

    write("a.csv", 5);
    write("B.CSV", 6);
    write("c.Csv", 7);
    for _ in ["read", "cached"] {
        let warnings = Warnings::default();
        let mut loader = Loader::new(settings.clone(), Vec::new()).warn_to(warnings.clone());
        assert_eq!(loader.next().unwrap().unwrap().row_count(), 3);
        let said = warnings.all();
        assert_eq!(said.len(), 1, "{said:?}");
        let names = ["\".hidden.csv\"", "\"more.csv\" (a folder)", "\"notes.txt\"", "\"z.csv.gz\""];
        assert!(said[0].contains(&names.join(", ")) && !said[0].contains(".lock"), "{said:?}");
    }
    let one = SourceSettings { path: folder.join("a.csv").to_str().map(str::to_owned), ..settings };
    let warnings = Warnings::default();
    Loader::new(one, Vec::new()).warn_to(warnings.clone()).next().unwrap();
    assert_eq!(warnings.all(), [""; 0]);
}

#[test]
fn names_that_are_no_text_are_read_and_cached() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("rows");
    fs::create_dir(&folder).unwrap();
    let text = "trade_date,close_pct\n2020-01-01,1\n2020-01-02,2\n";
    fs::write(folder.join(OsStr::from_bytes(b"caf\xe9.csv")), text).unwrap();
    let cache = dir.path().join("cache").to_str().unwrap().to_owned();
    let cached = SourceSettings { cache, ..settings(SourceKind::Csv, &folder) };
    let glob = folder.join("*.csv").to_str().unwrap().to_owned();
    for _ in 0..2 {
        assert_eq!(load(&cached).unwrap().row_count(), 2);
        let by_glob = SourceSettings { path: Some(glob.clone()), ..cached.clone() };
        assert_eq!(load(&by_glob).unwrap().row_count(), 2);
    }
    fs::write(
        folder.join(OsStr::from_bytes(b"caf\xe9.csv")),
        "trade_date,close_pct\n2020-01-01,x\n",
    )
    .unwrap();
    let error = chain(&load(&cached).unwrap_err());
    assert!(error.contains("caf\u{fffd}.csv"), "{error}");
}

#[test]
fn parquet_of_every_common_codec_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let days: ArrayRef = Arc::new(Int64Array::from_iter_values(0..5_000));
    let values = (0..5_000).map(|n| f64::from(n % 17));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("trade_date", days), ("close_pct", values)]).unwrap();
    let written = |codec: Compression| -> Panel {
        let path = dir.path().join("t.parquet");
        let properties = WriterProperties::builder().set_compression(codec).build();
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        load(&settings(SourceKind::Parquet, &path)).unwrap()
    };
    let plain = written(Compression::UNCOMPRESSED);
    for codec in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        let panel = written(codec);
        assert_eq!(panel.schema().fingerprint, plain.schema().fingerprint, "{codec:?}");
    }
}

const CHILD_FILE: &str = "MILLSTREAM_TEST_CHILD_FILE";

/// So many columns, all text in the first row and numbers in the others.
fn write_wide(path: &Path, columns: usize, rows: usize, first: &str) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    write!(file, "trade_date,close_pct").unwrap();
    (0..columns).for_each(|column| write!(file, ",column_{column}").unwrap());
    for row in 0..rows {
        write!(file, "\n{row},1").unwrap();
        for column in 0..columns {
            match row {
                0 => write!(file, ",{first}").unwrap(),
                _ => write!(file, ",{}", column + row).unwrap(),
            }
        }
    }
    writeln!(file).unwrap();
}

/// In a process that may have 1 GiB of addresses: the rows are 2 MB, the file is 4 MB.
#[test]
fn a_hundred_thousand_columns_take_memory_for_what_they_hold() {
    if let Some(file) = env::var_os(CHILD_FILE) {
        let settings = settings(SourceKind::Csv, Path::new(&file));
        let panel = load(&settings).unwrap();
        println!("{} rows of {} columns", panel.row_count(), panel.schema().columns.len());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wide.csv");
    // The second time no column but one is a number, and each has something to say about that.
    for (first, expected) in [("7", "5 rows of 100001 columns"), ("n.a.", "5 rows of 1 columns")] {
        write_wide(&file, 100_000, 5, first);
        let name = "odd_files::a_hundred_thousand_columns_take_memory_for_what_they_hold";
        let mut child = Command::new("sh");
        child
            .args(["-c", "ulimit -v 1048576; exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(env::current_exe().unwrap())
            .arg(name)
            .env(CHILD_FILE, &file);
        let output = in_time("reading a wide file", move || child.output().unwrap());
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(expected), "{text}");
    }
}
