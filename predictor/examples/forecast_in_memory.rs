//! Forecasts of a trained model within a program: windows in, record batches out, nothing on disk.
//! `cargo run --release -p millstream-predictor --example forecast_in_memory -- RUN/checkpoints/best`

use millstream_predictor::{Predictor, Windows};
use std::{error::Error, io, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let checkpoint = std::env::args().nth(1).ok_or("name a checkpoint, RUN/checkpoints/best")?;
    let mut forecaster = Predictor::load(Path::new(&checkpoint))?;
    let contract = forecaster.contract();
    let (lookback, columns) = (contract.schema.lookback, &contract.scaling.features);
    println!("{lookback} rows of {:?}", contract.schema.features);

    // In place of rows of yours, a window in which every column stays at its mean.
    let row: Vec<f32> = columns.iter().map(|column| column.mean as f32).collect();
    let mut windows = Windows::default();
    windows.push("average", 0, &row.repeat(lookback));
    let forecasts = forecaster.forecast(&windows)?;
    arrow::csv::Writer::new(io::stdout()).write(&forecasts)?;
    Ok(())
}
