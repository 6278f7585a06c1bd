//! From a CSV file to test figures: `cargo run --release --example csv_to_metrics -- prices.csv close`.

use millstream::{Error, Settings, train};

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let mut settings = Settings::from_toml("source.kind = 'csv'")?;
    settings.source.path = args.next();
    settings.target.columns = args.collect();
    let report = train(settings)?;
    let mse = |figures: Option<millstream::Figures>| figures.and_then(|f| f.overall.mse);
    println!("test mse {:?}, predict the last {:?}", mse(report.test), mse(report.baseline.last));
    Ok(())
}
