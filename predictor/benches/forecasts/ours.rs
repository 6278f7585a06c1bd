//! Ours: the sink at the end of a forecasting line, handed one batch after another.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::Work,
};
use millstream_predictor::{Output, Predictor};
use millstream_stage::{Ending, Flow, Sink as _};
use std::path::PathBuf;

/// Forecasts all batches. The clock runs until the file is complete and on the disk.
pub(crate) fn run(work: &Work) -> Result<Sample<()>, Failure> {
    let mut predictor = Predictor::new(work.folder(), Output::file(file(work))?, Box::new(|_| {}))?;
    let clock = Clock::start(Whose::Own)?;
    for index in 0..work.batches {
        if predictor.accept(work.batch(index))? == Flow::Stop {
            return Err("the predictor wants no more".into());
        }
    }
    predictor.finish(Ending::Drained)?;
    clock.stop()
}

/// Where the forecasts are.
pub(crate) fn file(work: &Work) -> PathBuf {
    work.folder().join("forecasts.parquet")
}
