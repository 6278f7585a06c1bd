//! A table of PostgreSQL to an Arrow file, over several connections, with bounded memory:
//!
//! ```text
//! cargo run --release -p millstream-loader --example postgres_to_arrow -- \
//!     'postgres://ann@localhost/market' features out.arrow [series] [time] [wide|packed]
//! ```

use arrow::ipc::writer::FileWriter;
use millstream_loader::{Columns, PostgresReader, SourceKind, SourceSettings};
use std::{env, error::Error, fs::File, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, table, out, rest @ ..] = arguments.as_slice() else {
        return Err(
            "usage: postgres_to_arrow URL TABLE OUT.arrow [series] [time] [wide|packed]".into()
        );
    };
    let columns = match rest.get(2).map(String::as_str) {
        None | Some("wide") => Columns::Wide,
        Some("packed") => Columns::Packed,
        Some(other) => return Err(format!("{other:?} is neither wide nor packed").into()),
    };
    let standard = SourceSettings::default();
    let settings = SourceSettings {
        kind: SourceKind::Postgres,
        url: Some(url.clone()),
        table: Some(table.clone()),
        series: rest.first().cloned().or(standard.series),
        time: rest.get(1).cloned().unwrap_or(standard.time),
        ..SourceSettings::default()
    };

    let start = Instant::now();
    let reader = PostgresReader::open(&settings, columns)?;
    let mut file = FileWriter::try_new_buffered(File::create(out)?, &reader.schema())?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        rows += batch.num_rows();
        file.write(&batch)?;
    }
    file.finish()?;
    println!("{rows} rows in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
