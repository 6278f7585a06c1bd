//! Ours: `millstream predict`, from the first connection to the commit.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::{FORECASTS, Work},
};
use millstream::{Forecast, Watch};

/// Forecasts all windows; gives what it took, and how many seconds of that the model did.
pub(crate) fn run(work: &Work) -> Result<(Sample<()>, f64), Failure> {
    let output = format!("{}&table={FORECASTS}", work.url);
    let clock = Clock::start(Whose::Own)?;
    let forecast = Forecast::of(work.run()).from("1970-01-01").output(output).use_all_threads();
    let predicted = forecast.write(&Watch::default())?;
    let sample = clock.stop()?;
    if predicted.rows != work.forecasts() as u64 {
        return Err(format!("{} forecasts, not {}", predicted.rows, work.forecasts()).into());
    }
    Ok((sample, predicted.forward.as_secs_f64()))
}
