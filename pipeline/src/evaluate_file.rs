//! [`Evaluating`]: a file of forecasts in, figures out. What the figures are is `millstream-evaluate`'s.

use crate::{
    error::{Error, ErrorKind},
    texts::shell_word,
};
use millstream_evaluate::{
    ColumnNames, EvaluateError, EvaluateSettings, Evaluation, Forecasts, History, TableFile,
    check_ending,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A file of forecasts to be judged, ours or another program's.
///
/// ```no_run
/// use millstream::{Evaluating, evaluate::Grouping};
///
/// let mut evaluating = Evaluating::of("forecasts.parquet").history("prices.csv");
/// evaluating.settings.by = vec![Grouping::Day, Grouping::Decile];
/// println!("{:?}", evaluating.evaluate()?.overall.rank_ic);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Evaluating {
    forecasts: PathBuf,
    history: Option<PathBuf>,
    output: Option<PathBuf>,
    /// Which column is what, where its name does not say so.
    pub columns: ColumnNames,
    /// What to look for.
    pub settings: EvaluateSettings,
}

#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error("{} has no forecasts; millstream predict --run {} makes them", .0.display(), shell_word(.0))]
    NoForecasts(PathBuf),
    #[error("{} would be written over; name another file", .0.display())]
    Overwrites(PathBuf),
    #[error("the history")]
    History(#[source] EvaluateError),
}

/// What forecasts in the folder of a run are called.
const OF_A_RUN: [&str; 2] = ["predictions.parquet", "predictions.csv"];

impl Evaluating {
    /// The forecasts in this file, `.parquet`, `.csv` or `.jsonl`, or in the folder of this run.
    #[must_use]
    pub fn of(forecasts: impl Into<PathBuf>) -> Self {
        Evaluating {
            forecasts: forecasts.into(),
            history: None,
            output: None,
            columns: ColumnNames::default(),
            settings: EvaluateSettings::default(),
        }
    }

    /// With the table that the series come from, `.parquet`, `.csv` or `.jsonl`: for last values, the scale of `mase` and
    /// naive forecasts that go back to before the first forecast.
    #[must_use]
    pub fn history(mut self, path: impl Into<PathBuf>) -> Self {
        self.history = Some(path.into());
        self
    }

    /// Also writes all figures to this file, `.csv`, `.parquet` or `.jsonl`, a row for each.
    #[must_use]
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.output = Some(path.into());
        self
    }

    /// Reads the forecasts and judges them.
    ///
    /// # Errors
    /// There is no such file, it cannot be told which column is what, or what is wrong with a row. In one line.
    pub fn evaluate(&self) -> Result<Evaluation, Error> {
        let path = self.file()?;
        self.check_output(&path)?;
        let file = TableFile::open(&path)?;
        let mut forecasts = Forecasts::new(file.names(), &self.columns)?;
        let columns = forecasts.columns().clone();
        file.read(columns.names(), |batch| forecasts.add(batch))?;
        let history = self.history.as_deref().map(|path| read_history(path, &forecasts));
        let history = history.transpose().map_err(|source| {
            let kind = kind(&source);
            Error::new(kind, FileError::History(source))
        })?;
        let found = forecasts.evaluate(&self.settings, history.as_ref())?;
        if let Some(output) = &self.output {
            found.write(output)?;
        }
        Ok(found)
    }

    fn file(&self) -> Result<PathBuf, Error> {
        if !self.forecasts.is_dir() {
            return Ok(self.forecasts.clone());
        }
        let mut files = OF_A_RUN.iter().map(|name| self.forecasts.join(name));
        let found = files.find(|file| file.exists());
        found.ok_or_else(|| Error::settings(FileError::NoForecasts(self.forecasts.clone())))
    }

    /// What is read is not written to.
    fn check_output(&self, forecasts: &Path) -> Result<(), Error> {
        let Some(output) = &self.output else { return Ok(()) };
        check_ending(output)?;
        let real = |path: &Path| fs::canonicalize(path).ok();
        let read = [Some(forecasts), self.history.as_deref()];
        let place = real(output);
        if place.is_some() && read.into_iter().flatten().any(|path| real(path) == place) {
            return Err(Error::settings(FileError::Overwrites(output.clone())));
        }
        Ok(())
    }
}

fn read_history(path: &Path, forecasts: &Forecasts) -> Result<History, EvaluateError> {
    let file = TableFile::open(path)?;
    let mut history = History::of(forecasts, file.names())?;
    let names: Vec<String> = history.names().map(str::to_owned).collect();
    file.read(names.iter().map(String::as_str), |batch| history.add(batch))?;
    Ok(history)
}

/// What kind of thing is wrong.
pub(crate) fn kind(error: &EvaluateError) -> ErrorKind {
    match error {
        error if error.is_usage() => ErrorKind::Settings,
        EvaluateError::Write { source, .. } => match source.downcast_ref::<io::Error>() {
            // A folder that is not there was misspelt.
            Some(error) if error.kind() == io::ErrorKind::NotFound => ErrorKind::Settings,
            _ => ErrorKind::Other,
        },
        _ => ErrorKind::Data,
    }
}
