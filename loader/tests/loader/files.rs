//! CSV and Parquet files: equal tables give equal panels, in any order, from any format.

use crate::support::{chain, load, rows};
use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
        Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, UInt8Array,
    },
    compute::{cast, take},
    csv::WriterBuilder,
    datatypes::{DataType, Int32Type, TimeUnit},
};
use millstream_data::{Panel, TimeKind};
use millstream_loader::{SourceKind, SourceSettings};
use parquet::{
    arrow::ArrowWriter,
    data_type::{DoubleType, Int96, Int96Type},
    file::writer::SerializedFileWriter,
    schema::parser::parse_message_type,
};
use proptest::prelude::*;
use std::{fs::File, path::Path, sync::Arc};

fn settings(kind: SourceKind, path: &Path) -> SourceSettings {
    let path = Some(path.to_str().unwrap().to_owned());
    SourceSettings { kind, path, cache: String::new(), ..SourceSettings::default() }
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn write_csv(path: &Path, batch: &RecordBatch) {
    let mut writer = WriterBuilder::new().with_header(true).build(File::create(path).unwrap());
    writer.write(batch).unwrap();
}

fn load_parquet(batch: &RecordBatch) -> Panel {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    write_parquet(&path, batch);
    load(&settings(SourceKind::Parquet, &path)).unwrap()
}

/// A wide table of unique keys with holes in its values.
fn table(cells: &[(String, i32, Option<f32>, Option<i64>)]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(StringArray::from_iter_values(cells.iter().map(|c| &c.0)))),
        ("trade_date", Arc::new(Date32Array::from_iter_values(cells.iter().map(|c| c.1)))),
        ("close_pct", Arc::new(Float32Array::from_iter(cells.iter().map(|c| c.2)))),
        ("volume", Arc::new(Int64Array::from_iter(cells.iter().map(|c| c.3)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn cells() -> impl Strategy<Value = Vec<(String, i32, Option<f32>, Option<i64>)>> {
    let key = ("[0-9]{1,3}|[a-z]{1,2}", -1_000..20_000);
    let value = (prop::option::of(-1e6_f32..1e6), prop::option::of(-9_000_000_i64..9_000_000));
    prop::collection::btree_map(key, value, 1..80).prop_map(|cells| {
        let first = (Some(1.5), Some(2));
        // A first row without holes: CSV cannot tell a column of holes from one of numbers.
        let value = |n, value| if n == 0 { first } else { value };
        cells
            .into_iter()
            .enumerate()
            .map(|(n, ((name, day), cell))| (name, day, value(n, cell).0, value(n, cell).1))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shuffled_tables_of_either_format_give_the_sorted_panel_through_the_cache_too(
        cells in cells(),
        order in any::<prop::sample::Index>(),
    ) {
        let sorted = table(&cells);
        let mut places: Vec<i64> = (0..i64::try_from(cells.len()).unwrap()).collect();
        places.sort_by_key(|place| {
            xxhash_rust::xxh3::xxh3_64_with_seed(&place.to_le_bytes(), order.index(usize::MAX) as u64)
        });
        let places = Int64Array::from(places);
        let columns = sorted.columns().iter().map(|c| take(c, &places, None).unwrap()).collect();
        let shuffled = RecordBatch::try_new(sorted.schema(), columns).unwrap();

        let dir = tempfile::tempdir().unwrap();
        let csv = dir.path().join("t.csv");
        write_csv(&csv, &shuffled);
        let expected = load_parquet(&sorted);
        let from_parquet = load_parquet(&shuffled);
        let from_csv = load(&settings(SourceKind::Csv, &csv)).unwrap();
        prop_assert_eq!(expected.schema(), from_parquet.schema());
        prop_assert_eq!(expected.schema(), from_csv.schema());
        prop_assert_eq!(rows(&expected), rows(&from_parquet));
        prop_assert_eq!(rows(&expected), rows(&from_csv));
        prop_assert_eq!(expected.row_count(), cells.len());

        let cache = dir.path().join("cache").to_str().unwrap().to_owned();
        let cached = SourceSettings { cache, ..settings(SourceKind::Csv, &csv) };
        for _ in ["written", "opened"] {
            let panel = load(&cached).unwrap();
            prop_assert_eq!(expected.schema(), panel.schema());
            prop_assert_eq!(rows(&expected), rows(&panel));
        }
    }
}

#[test]
fn many_files_are_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let cell = |name: &str, day| (name.to_owned(), day, Some(1.0), Some(i64::from(day)));
    let cells = [cell("a", 1), cell("a", 2), cell("b", 1), cell("b", 5)];
    write_parquet(&dir.path().join("2.parquet"), &table(&cells[..1]));
    write_parquet(&dir.path().join("1.parquet"), &table(&cells[1..]));
    write_csv(&dir.path().join("x.csv"), &table(&cells[2..]));
    write_csv(&dir.path().join("y.csv"), &table(&cells[..2]));
    let whole = load_parquet(&table(&cells));
    let parquet = load(&settings(SourceKind::Parquet, dir.path())).unwrap();
    let csv = load(&settings(SourceKind::Csv, &dir.path().join("*.csv"))).unwrap();
    assert_eq!(whole.schema(), parquet.schema());
    assert_eq!(whole.schema(), csv.schema());
}

/// Columns of every kind in Parquet, and what they become.
#[test]
fn every_parquet_type_is_read() {
    let names: DictionaryArray<Int32Type> = ["b", "a"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("symbol", Arc::new(names)),
        (
            "trade_date",
            Arc::new(
                TimestampNanosecondArray::from(vec![-1_500, 2_000_000_999]).with_timezone("+08:00"),
            ),
        ),
        ("close_pct", Arc::new(Float64Array::from(vec![Some(0.1), None]))),
        ("small", Arc::new(UInt8Array::from(vec![255, 0]))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![-12_345, 1]).with_precision_and_scale(20, 3).unwrap(),
            ),
        ),
        ("note", Arc::new(StringViewArray::from(vec!["x", "y"]))),
    ];
    let panel = load_parquet(&RecordBatch::try_from_iter(columns).unwrap());
    let schema = panel.schema();
    assert_eq!(schema.columns, ["close_pct", "small", "flag", "price"]);
    assert_eq!((schema.time_kind, schema.inputs), (TimeKind::Timestamp, 4));
    // Nanoseconds are cut down to the microsecond before them.
    assert_eq!(panel.shards()[0].times(), [2_000_000, -2]);
    let values = panel.shards()[0].values();
    assert!(values[0].is_nan() && values[2].is_nan());
    assert_eq!((values[1], values[3]), (0.0, 0.001));
    assert_eq!(values[4..], [0.1, 255.0, 1.0, -12.345]);
}

#[test]
fn integer_keys_name_series_and_integers_are_times() {
    let batch =
        table(&[("10".to_owned(), 3, Some(1.0), None), ("9".to_owned(), 3, Some(2.0), None)]);
    let mut columns = batch.columns().to_vec();
    columns[0] = cast(&columns[0], &DataType::Int16).unwrap();
    columns[1] = cast(&columns[1], &DataType::Int32).unwrap();
    let names = ["symbol", "trade_date", "close_pct", "volume"];
    let panel = load_parquet(&RecordBatch::try_from_iter(names.into_iter().zip(columns)).unwrap());
    assert_eq!(panel.schema().series, ["10", "9"]);
    assert_eq!(
        (panel.schema().time_kind, panel.shards()[0].times()),
        (TimeKind::Integer, [3, 3].as_slice())
    );
}

#[test]
fn a_later_file_must_have_the_columns_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let whole = table(&[("a".to_owned(), 1, Some(1.0), Some(2))]);
    write_parquet(&dir.path().join("1.parquet"), &whole);
    write_parquet(&dir.path().join("2.parquet"), &whole.project(&[0, 1, 2]).unwrap());
    let error = load(&settings(SourceKind::Parquet, dir.path())).unwrap_err().to_string();
    assert!(error.contains("2.parquet has no column \"volume\""), "{error}");
    write_csv(&dir.path().join("1.csv"), &whole);
    write_csv(&dir.path().join("2.csv"), &whole.project(&[0, 1, 3, 2]).unwrap());
    let error = load(&settings(SourceKind::Csv, dir.path())).unwrap_err();
    assert!(chain(&error).contains("files read together need the same columns"), "{error}");
}

#[test]
fn what_is_not_parquet_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    std::fs::write(&path, "not parquet at all").unwrap();
    let error = load(&settings(SourceKind::Parquet, &path)).unwrap_err().to_string();
    assert!(error.contains("t.parquet is not a readable Parquet file"), "{error}");
    let error = load(&settings(SourceKind::Parquet, &dir.path().join("*.pq"))).unwrap_err();
    assert!(error.to_string().contains("matches no file; give a file, a glob"), "{error}");
}

/// Dates that 64 bits of nanoseconds cannot hold, and the microseconds they are.
const FAR: [(&str, i64); 4] = [
    ("0001-01-01", -62_135_596_800_000_000),
    ("1500-01-01", -14_831_769_600_000_000),
    ("2263-01-01", 9_246_182_400_000_000),
    ("9999-12-31", 253_402_214_400_000_000),
];

fn check_far(panel: &Panel, kind: TimeKind) {
    assert_eq!(panel.schema().time_kind, kind);
    assert_eq!(panel.shards()[0].times(), FAR.map(|(_, time)| time));
    for ((date, _), time) in FAR.iter().zip(panel.shards()[0].times()) {
        assert!(panel.schema().format_time(*time).starts_with(date));
    }
}

#[test]
fn times_beyond_64_bits_of_nanoseconds_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    for (clock, kind) in [("", TimeKind::Date), (" 00:00:00", TimeKind::Timestamp)] {
        let rows = FAR.map(|(date, _)| format!("x,{date}{clock},1\n")).concat();
        std::fs::write(&path, format!("symbol,trade_date,close_pct\n{rows}")).unwrap();
        let all = SourceSettings {
            from: Some(format!("0001-01-01{clock}")),
            to: Some("9999-12-31 00:00:01".to_owned()),
            ..settings(SourceKind::Csv, &path)
        };
        check_far(&load(&all).unwrap(), kind);
    }
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(FAR.map(|(date, _)| date)));
    let micros: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from_iter_values(FAR.map(|(_, time)| time)));
    let as_type = |kind: DataType| cast(&micros, &kind).unwrap();
    let times = [
        (text, TimeKind::Date),
        (as_type(DataType::Date32), TimeKind::Date),
        (as_type(DataType::Date64), TimeKind::Date),
        (as_type(DataType::Timestamp(TimeUnit::Second, None)), TimeKind::Timestamp),
        (as_type(DataType::Timestamp(TimeUnit::Millisecond, None)), TimeKind::Timestamp),
        (Arc::clone(&micros), TimeKind::Timestamp),
    ];
    for (times, kind) in times {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("symbol", Arc::new(StringArray::from(vec!["x"; FAR.len()]))),
            ("trade_date", times),
            ("close_pct", Arc::new(Float32Array::from(vec![1.0; FAR.len()]))),
        ];
        check_far(&load_parquet(&RecordBatch::try_from_iter(columns).unwrap()), kind);
    }
}

/// Times as Spark writes them: a day and the nanoseconds within it.
#[test]
fn times_of_96_bits_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let schema =
        parse_message_type("message t { required int96 trade_date; required double close_pct; }");
    let mut file = SerializedFileWriter::new(
        File::create(&path).unwrap(),
        Arc::new(schema.unwrap()),
        Arc::default(),
    )
    .unwrap();
    let mut group = file.next_row_group().unwrap();
    let times = FAR.map(|(_, time)| {
        let day = u32::try_from(time.div_euclid(86_400_000_000) + 2_440_588).unwrap();
        let mut value = Int96::new();
        value.set_data(0, 0, day);
        value
    });
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<DoubleType>().write_batch(&[1.0; FAR.len()], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();
    let one = SourceSettings { series: None, ..settings(SourceKind::Parquet, &path) };
    check_far(&load(&one).unwrap(), TimeKind::Timestamp);
}
