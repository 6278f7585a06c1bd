//! Reads CSV files and says what the panel holds.
//!
//! `cargo run --release -p millstream-loader --example csv_to_panel -- 'data/*.csv' [series [time]]`

use millstream_loader::{Loader, SourceKind, SourceSettings};
use millstream_stage::Source;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let defaults = SourceSettings::default();
    let settings = SourceSettings {
        kind: SourceKind::Csv,
        path: Some(arguments.next().ok_or("usage: csv_to_panel PATH [SERIES [TIME]]")?),
        series: arguments.next().or(defaults.series),
        time: arguments.next().unwrap_or(defaults.time),
        cache: String::new(),
        ..SourceSettings::default()
    };
    let panel = Loader::new(settings, Vec::new()).next()?.ok_or("a loader emits one panel")?;
    let schema = panel.schema();
    println!(
        "{} rows, {} columns: {}",
        panel.row_count(),
        schema.width(),
        schema.columns.join(", ")
    );
    for piece in panel.pieces() {
        let times = &panel.shards()[piece.shard].times()[piece.start..][..piece.rows];
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            let (first, last) = (schema.format_time(*first), schema.format_time(*last));
            println!(
                "{}: {} rows, {first} to {last}",
                schema.series[piece.series as usize], piece.rows
            );
        }
    }
    Ok(())
}
