//! From a CSV file to shuffled training batches, with no libtorch and no database:
//! `cargo run --release -p millstream-normalize --example windows -- FILE SERIES TIME TARGET`
use arrow::csv::{ReaderBuilder, reader::Format};
use millstream_data::Panel;
use millstream_normalize::{TrainingData, TrainingSettings};
use std::{error::Error, fs::File, sync::Arc};

fn main() -> Result<(), Box<dyn Error>> {
    let [file, series, time, target]: [String; 4] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().or(Err("four arguments"))?;
    let format = Format::default().with_header(true);
    let (schema, _) = format.infer_schema(File::open(&file)?, None)?;
    let csv = ReaderBuilder::new(Arc::new(schema)).with_format(format).build(File::open(file)?)?;
    let panel = Panel::from_table(&csv.collect::<Result<Vec<_>, _>>()?, Some(&series), &time)?;
    let mut settings = TrainingSettings { batch_size: 64.try_into()?, ..Default::default() };
    settings.fit.target.columns = vec![target];
    settings.fit.window.lookback = 24.try_into()?;
    let mut data = TrainingData::new(&panel, &settings)?;
    for epoch in 1..=3 {
        for batch in data.train(epoch) {
            println!("{epoch}: {:?} from {:?}", batch.targets_shape(), batch.inputs_shape());
        }
    }
    Ok(())
}
