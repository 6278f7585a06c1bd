//! Tests of the COPY decoder: any cut of a stream gives the same rows, no bytes make it panic.

use super::{
    fields::{IntegerField, Scalar},
    packed::PackedRows,
    typed::TypedRows,
    *,
};
use crate::{SourceSettings, filter::RowFilter, order, rows::RowStore};
use arrow::array::{Array, AsArray};
use proptest::prelude::*;
use std::sync::Arc;

fn columns() -> Arc<CopyColumns> {
    let value = |name: &str, scalar| ValueColumn {
        name: name.to_owned(),
        field: ValueField::Scalar(scalar),
        width: 1,
    };
    Arc::new(CopyColumns {
        place: "t".to_owned(),
        series: Some(("symbol".to_owned(), KeyField::Text)),
        time: ("day".to_owned(), TimeField::Integer(IntegerField::Int4)),
        values: vec![
            value("a", Scalar::Float8),
            value("b", Scalar::Numeric),
            value("c", Scalar::Bool),
        ],
    })
}

fn filter() -> Arc<RowFilter> {
    Arc::new(RowFilter::new(&SourceSettings::default()).unwrap())
}

fn decoder() -> CopyDecoder<PackedRows> {
    CopyDecoder::new(PackedRows::new(columns(), filter(), RowStore::new(3)))
}

fn field(stream: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
    stream.extend(length.to_be_bytes());
    stream.extend(bytes.unwrap_or_default());
}

fn header() -> Vec<u8> {
    [SIGNATURE, &[0; 4], &3_u32.to_be_bytes(), b"ext"].concat()
}

fn stream(rows: &[(String, i32, Option<f64>)]) -> Vec<u8> {
    let mut stream = header();
    for (name, time, value) in rows {
        stream.extend(5_i16.to_be_bytes());
        field(&mut stream, Some(name.as_bytes()));
        field(&mut stream, Some(&time.to_be_bytes()));
        field(&mut stream, value.map(f64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
        field(&mut stream, Some(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 7]));
        field(&mut stream, Some(&[1]));
    }
    stream.extend((-1_i16).to_be_bytes());
    stream
}

fn decode(pieces: &[&[u8]]) -> Result<Vec<(u32, i64, Vec<u32>)>, LoadError> {
    let mut decoder = decoder();
    for piece in pieces {
        decoder.feed(piece)?;
    }
    let (rows, _) = decoder.finish()?.finish();
    let go_on = &mut |_| std::ops::ControlFlow::Continue(());
    let reporter = &mut crate::progress::ProgressReporter::new(go_on);
    let (_, shards) = order::into_shards(vec![rows], 3, false, reporter).unwrap();
    Ok(shards
        .iter()
        .flat_map(|shard| {
            let values =
                shard.values().chunks(3).map(|row| row.iter().map(|v| v.to_bits()).collect());
            let keys = shard.codes().iter().copied().zip(shard.times().iter().copied());
            keys.zip(values).map(|((code, time), values)| (code, time, values)).collect::<Vec<_>>()
        })
        .collect())
}

fn check_refused(stream: &[u8], expected: &str) {
    let error = decode(&[stream]).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn broken_streams_are_refused_with_the_row() {
    let whole = stream(&[("x".to_owned(), 1, Some(2.0))]);
    check_refused(
        &whole[..whole.len() - 2],
        "row 2: the COPY stream is broken: expected an end marker",
    );
    check_refused(b"PGCOPY is something else", "the signature of a binary COPY");
    check_refused(&[whole.as_slice(), &[0]].concat(), "nothing after the end marker");
    let short = [header(), 4_i16.to_be_bytes().to_vec()].concat();
    check_refused(&short, "as many fields as columns");
    let long = [header(), 5_i16.to_be_bytes().to_vec(), (-2_i32).to_be_bytes().to_vec()].concat();
    check_refused(&long, "row 1: the COPY stream is broken: expected a field length");
    let mut null = header();
    null.extend(5_i16.to_be_bytes());
    field(&mut null, None);
    field(&mut null, Some(&7_i32.to_be_bytes()));
    check_refused(&null, "t, the row without a series at 7: column \"symbol\" is empty");
}

#[test]
fn a_field_of_the_wrong_length_names_its_column() {
    let mut stream = header();
    stream.extend(5_i16.to_be_bytes());
    field(&mut stream, Some(b"x"));
    field(&mut stream, Some(&[0, 0, 0, 1]));
    field(&mut stream, Some(&[1, 2, 3]));
    check_refused(
        &stream,
        "t, the row of series \"x\" at 1: column \"a\" is not a valid float8 of 3 bytes",
    );
}

#[test]
fn plain_columns_tell_null_from_nan() {
    let rows = [("x".to_owned(), 1, Some(f64::NAN)), ("y".to_owned(), 2, None)];
    let mut decoder = CopyDecoder::new(TypedRows::new(columns(), filter()));
    decoder.feed(&stream(&rows)).unwrap();
    let batch = decoder.finish().unwrap().take();
    let a = batch.column_by_name("a").unwrap().as_primitive::<arrow::datatypes::Float64Type>();
    assert!(a.is_valid(0) && a.value(0).is_nan() && a.is_null(1));
    assert_eq!(batch.column(0).as_string::<i32>().value(1), "y");
}

/// Streams of one row with runs of `float4` of every length, and NULLs and NaNs anywhere.
#[test]
fn runs_of_float4_are_what_each_field_is() {
    for width in 0..40_usize {
        let cells: Vec<Option<f32>> = (0..width)
            .map(|n| match (n * 7 + width) % 11 {
                0 => None,
                1 => Some(f32::from_bits(0xffc0_1234)),
                n => Some(n as f32 - 4.5),
            })
            .collect();
        let mut bytes = header();
        bytes.extend(i16::try_from(width + 1).unwrap().to_be_bytes());
        field(&mut bytes, Some(&1_i32.to_be_bytes()));
        for cell in &cells {
            field(&mut bytes, cell.map(f32::to_be_bytes).as_ref().map(<[u8; 4]>::as_slice));
        }
        bytes.extend((-1_i16).to_be_bytes());
        let value = |n| ValueColumn {
            name: format!("f{n}"),
            field: ValueField::Scalar(Scalar::Float4),
            width: 1,
        };
        let columns = Arc::new(CopyColumns {
            place: "t".to_owned(),
            series: None,
            time: ("day".to_owned(), TimeField::Integer(IntegerField::Int4)),
            values: (0..width).map(value).collect(),
        });
        for cut in 0..bytes.len() {
            let rows = PackedRows::new(Arc::clone(&columns), filter(), RowStore::new(width));
            let mut decoder = CopyDecoder::new(rows);
            decoder.feed(&bytes[..cut]).unwrap();
            decoder.feed(&bytes[cut..]).unwrap();
            let (store, _) = decoder.finish().unwrap().finish();
            let (_, chunks) = store.finish();
            let found: Vec<u32> = chunks[0].values.iter().map(|value| value.to_bits()).collect();
            let nan = |cell: &Option<f32>| cell.filter(|c| !c.is_nan()).unwrap_or(f32::NAN);
            let expected: Vec<u32> = cells.iter().map(|cell| nan(cell).to_bits()).collect();
            assert_eq!(found, expected, "width {width}, cut at {cut}");
        }
    }
}

proptest! {
    #[test]
    fn every_cut_of_a_stream_gives_the_same_rows(
        rows in prop::collection::vec(("[a-c]{1,3}", any::<i32>(), any::<Option<f64>>()), 0..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let stream = stream(&rows);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.sort_unstable();
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([stream.len()]);
        let pieces: Vec<&[u8]> = starts.zip(ends).map(|(from, to)| &stream[from..to]).collect();
        prop_assert_eq!(decode(&pieces).unwrap(), decode(&[&stream]).unwrap());
        prop_assert_eq!(decode(&[&stream]).unwrap().len(), rows.len());
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<prop::sample::Index>(),
        start in prop::sample::select(vec![Vec::new(), header(), stream(&[("x".to_owned(), 1, None)])]),
    ) {
        let stream = [start, bytes].concat();
        let (one, other) = stream.split_at(if stream.is_empty() { 0 } else { cut.index(stream.len()) });
        let mut decoder = decoder();
        if decoder.feed(one).is_ok() && decoder.feed(other).is_ok() {
            prop_assert!(decoder.seen() <= stream.len() as u64);
        }
    }

    #[test]
    fn no_bytes_make_any_type_panic(
        choice in any::<[u8; 2]>(),
        fields in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 13),
        tail in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut data = choice.to_vec();
        data.extend(header());
        // As many fields as the fuzzed columns have, so that every one of them is reached.
        let fields = &fields[usize::from(choice[0].is_multiple_of(5))..];
        data.extend(i16::try_from(fields.len()).unwrap().to_be_bytes());
        for bytes in fields {
            field(&mut data, Some(bytes));
        }
        data.extend(tail);
        fuzz::decode(&data);
    }

    #[test]
    fn a_changed_byte_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let rows: Vec<_> = (0..3).map(|n| (format!("s{n}"), n, Some(f64::from(n)))).collect();
        let mut stream = stream(&rows);
        let at = at.index(stream.len());
        stream[at] = byte;
        if let Ok(rows) = decode(&[&stream]) {
            prop_assert!(rows.len() <= 3);
        }
    }
}
