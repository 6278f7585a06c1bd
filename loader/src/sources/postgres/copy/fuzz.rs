//! One entry for everything that feeds the decoder arbitrary bytes: the fuzz target in
//! `loader/fuzz`, and the bounded run over its corpus in the test suite.

use super::{
    CopyColumns, CopyDecoder, DecodeRow, ValueColumn,
    fields::{IntegerField, Scalar, TimeField, ValueField},
    key::KeyField,
    packed::PackedRows,
    typed::TypedRows,
};
use crate::{SourceSettings, filter::RowFilter, rows::RowStore};
use std::sync::Arc;

/// Decodes `data` as a COPY stream, in every layout. The first two bytes choose the types of the
/// keys and where the stream is cut in two; the values are a column of every type there is.
pub(crate) fn decode(data: &[u8]) {
    let Some(([choice, cut], stream)) = data.split_first_chunk::<2>() else { return };
    let columns = Arc::new(columns(*choice));
    let filter = Arc::new(RowFilter::new(&SourceSettings::default()).expect("no bounds are set"));
    let cut = stream.len() * usize::from(*cut) / 256;
    let store = RowStore::with_chunk_rows(columns.width(), 3);
    let packed = PackedRows::new(Arc::clone(&columns), Arc::clone(&filter), store);
    let packed = feed(packed, stream, cut);
    let typed = feed(TypedRows::new(columns, filter), stream, cut);
    // What the panel takes, plain columns take too; they also take rows whose keys are NULL.
    assert!(packed <= typed, "{packed} rows of a panel, {typed} of plain columns");
}

/// Rows that were decoded before the end or the first error.
fn feed(rows: impl DecodeRow, stream: &[u8], cut: usize) -> u64 {
    let mut decoder = CopyDecoder::new(rows);
    for piece in [&stream[..cut], &stream[cut..]] {
        if decoder.feed(piece).is_err() {
            break;
        }
    }
    let seen = decoder.seen();
    assert!(seen <= stream.len() as u64 / 2, "a row takes at least two bytes");
    // Whether the stream was whole is not the point here.
    let _ = decoder.finish();
    seen
}

fn columns(choice: u8) -> CopyColumns {
    use IntegerField::{Int2, Int4, Int8};
    let keys = [
        None,
        Some(KeyField::Text),
        Some(KeyField::Padded),
        Some(KeyField::Uuid),
        Some(KeyField::Integer(Int4)),
    ];
    let times = [
        TimeField::Date,
        TimeField::Timestamp,
        TimeField::Clock,
        TimeField::Text,
        TimeField::Integer(Int8),
    ];
    let scalars = [
        Scalar::Integer(Int2),
        Scalar::Float4,
        Scalar::Float4,
        Scalar::Float8,
        Scalar::Numeric,
        Scalar::Bool,
        Scalar::Date,
        Scalar::Clock,
        Scalar::ZonedTimestamp,
    ];
    let choice = usize::from(choice);
    let column = |field, width| ValueColumn { name: "v".to_owned(), field, width };
    let scalars = scalars.map(|scalar| column(ValueField::Scalar(scalar), 1));
    let arrays = [Scalar::Float4, Scalar::Numeric].map(|s| column(ValueField::Array(s), 3));
    CopyColumns {
        place: "t".to_owned(),
        series: keys[choice % keys.len()].map(|field| ("series".to_owned(), field)),
        time: ("time".to_owned(), times[choice / keys.len() % times.len()]),
        values: scalars.into_iter().chain(arrays).collect(),
    }
}
