//! From a CSV file to shuffled, scaled training batches, for a training loop of your own; no libtorch:
//! `cargo run --release --example csv_to_batches -- prices.csv close`.

use millstream_loader::{Loader, SourceKind, SourceSettings};
use millstream_normalize::{TrainingData, TrainingSettings};
use millstream_stage::Source;
use std::{env::args, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let (path, target) = (args().nth(1), args().nth(2).ok_or("name a file and a column")?);
    let source = SourceSettings { kind: SourceKind::Csv, path, ..SourceSettings::default() };
    let panel = Loader::new(source, vec![target.clone()]).next()?.expect("a loader has one panel");
    let mut settings = TrainingSettings { batch_size: 64.try_into()?, ..Default::default() };
    settings.fit.target.columns = vec![target];
    let mut data = TrainingData::new(&panel, &settings)?;
    for epoch in 1..=3 {
        for batch in data.train(epoch) {
            println!(
                "epoch {epoch}: {:?} windows to {:?}",
                batch.inputs_shape(),
                batch.targets_shape()
            );
        }
    }
    Ok(())
}
