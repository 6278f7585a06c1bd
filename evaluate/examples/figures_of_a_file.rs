//! The figures of a file of forecasts: `cargo run --example figures_of_a_file FORECASTS.csv`.

use millstream_evaluate::{ColumnNames, EvaluateSettings, Forecasts, Grouping, TableFile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a .csv or .parquet file")?;
    let file = TableFile::open(path)?;
    let mut forecasts = Forecasts::new(file.names(), &ColumnNames::default())?;
    let columns = forecasts.columns().clone();
    println!("{columns}");
    file.read(columns.names(), |batch| forecasts.add(batch))?;
    let mut settings = EvaluateSettings::default();
    settings.by = vec![Grouping::Month];
    let found = forecasts.evaluate(&settings, None)?;
    for (name, value) in found.overall.named() {
        println!("{name:<22}{}", value.map_or("-".to_owned(), |value| format!("{value:.6}")));
    }
    for month in found.groups(Grouping::Month).unwrap_or_default() {
        println!("rank ic of {}: {:?}", month.group, month.figures.rank_ic);
    }
    Ok(())
}
