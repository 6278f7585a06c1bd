//! [`Forecast`]: a trained run in, a file of forecasts out. The prediction line, loader → normalize →
//! prefetch → predictor, is wired here.

use crate::{
    checkpoint_choice::{self, CheckpointChoice, RunCheckpoint},
    clock,
    device::{device, ring},
    error::{Error, ErrorKind},
    forecast_times::{AskedTimes, ForecastPart},
    output::{self, Owner},
    report::{path_as_text, some_path_as_text},
    run_dir,
    settings::{Override, Overrides, Settings},
    shared_panel::{Rows, SharedPanel},
    texts::grouped,
    threads,
    training::loader,
    watch::{Event, Watch},
};
use arrow::array::RecordBatch;
use millstream_data::{CrossSection, Scaling, list_names};
use millstream_loader::Refresh;
use millstream_model::{Architecture, ModelDescription, ModelError, built_in};
use millstream_normalize::{Limit, Normalize, NormalizeSettings, PredictPurpose, Rank, Span};
use millstream_predictor::{
    Contract, Forecaster, Output, PredictProgress, Predictor, read_contract,
};
use millstream_stage::{Ending, Pipeline, StageReport};
use millstream_trainer::clear_leftovers;
use serde::Serialize;
use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Where forecasts go that nobody named a file for, in the folder of their run.
pub(crate) const DEFAULT_OUTPUT: &str =
    if cfg!(feature = "parquet") { "predictions.parquet" } else { "predictions.csv" };

/// What forecasting gave.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Predicted {
    /// The run that forecast.
    #[serde(serialize_with = "path_as_text")]
    pub run: PathBuf,
    /// Rows forecast, one for every window and step; 0 when they were written nowhere as it was cut short.
    pub rows: u64,
    /// Series with a forecast.
    pub series: u64,
    /// Series too short for one.
    pub skipped: u64,
    /// What was written; `None` when nothing was.
    #[serde(serialize_with = "some_path_as_text")]
    pub output: Option<PathBuf>,
    /// Of the rows, those that forecast past the last row of their series.
    pub to_come: u64,
    /// Some of the rows, the first and the last of them, to be shown.
    #[serde(skip)]
    pub preview: Vec<RecordBatch>,
    /// The stages of the line.
    #[serde(skip)]
    pub stages: Vec<StageReport>,
    /// How long the model itself took: a part of what the predictor was busy.
    #[serde(skip)]
    pub forward: Duration,
    /// Whether it was cut short; nothing is then written, but for what is out on stdout.
    pub interrupted: bool,
}

/// Finds the architecture that a `schema.json` describes.
type FindModel = Box<dyn Fn(&ModelDescription) -> Result<Box<dyn Architecture>, ModelError>>;

/// Forecasts with a model of a run, the best unless another is named: its test part, unless other
/// forecasts are asked for.
///
/// ```no_run
/// use millstream::{Forecast, Watch};
///
/// let forecast = Forecast::of("runs/2026-11-18_09-30-00").from("2026-11-01").output("new.csv");
/// println!("{} rows", forecast.write(&Watch::default())?.rows);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Forecast {
    run: PathBuf,
    checkpoint: CheckpointChoice,
    overrides: Overrides,
    find_model: FindModel,
    output: Option<PathBuf>,
    times: AskedTimes,
    symbols: Vec<String>,
    intervals: Vec<f64>,
    now: Option<SystemTime>,
    refresh: Refresh,
    all_threads: bool,
}

/// What is asked of a run.
#[derive(Default)]
pub(crate) struct Asked<'a> {
    checkpoint: CheckpointChoice,
    output: Option<&'a Path>,
    times: AskedTimes,
    /// Only these series, of those that are loaded; empty for all.
    series: Vec<String>,
    /// Levels of the intervals around forecasts.
    intervals: &'a [f64],
    /// By which the age of rows is told; `None` for that of the clock.
    now: Option<SystemTime>,
    refresh: Refresh,
    find_model: Option<&'a FindModel>,
    /// Whether to warn of windows that are left out, as training has not just done.
    warn_of_left_out: bool,
    /// How much of it.
    limit: Limit,
    /// Rows that are there already.
    panel: Option<&'a SharedPanel>,
    /// The part that is tested in place of the run's own.
    test: Option<Span>,
}

impl<'a> Asked<'a> {
    /// The test part of a fold of a backtest, to this file.
    pub(crate) fn of_fold(panel: &'a SharedPanel, test: Option<Span>, output: &'a Path) -> Self {
        Asked { panel: Some(panel), test, output: Some(output), ..Asked::default() }
    }
}

impl Asked<'_> {
    /// The test part of a run that has just been trained, or as much of it as it was tested on.
    pub(crate) fn of_limited(limit: Limit) -> Self {
        Asked { limit, ..Asked::default() }
    }
}

#[derive(Debug, thiserror::Error)]
enum ForecastError {
    #[error("{change}, but that is the model's own; train a model with it, or leave it out")]
    OfTheModel { change: String },
    #[error("none of the series {} is among source.symbols", list_names(.asked, 12))]
    NotAmong { asked: Vec<String> },
}

impl Forecast {
    /// Forecasts of the test part of this run, to `predictions.parquet` in its folder (`.csv` where
    /// Parquet is not built in).
    #[must_use]
    pub fn of(run: impl Into<PathBuf>) -> Self {
        Forecast {
            run: run.into(),
            checkpoint: CheckpointChoice::default(),
            overrides: Overrides::default(),
            find_model: Box::new(built_in),
            output: None,
            times: AskedTimes::default(),
            symbols: Vec::new(),
            intervals: Vec::new(),
            now: None,
            refresh: Refresh::IfNewer,
            all_threads: false,
        }
    }

    /// The same of a run and a checkpoint that a person has named together.
    #[must_use]
    pub fn of_checkpoint(RunCheckpoint { run, checkpoint }: RunCheckpoint) -> Self {
        Forecast::of(run).checkpoint(checkpoint)
    }

    /// Writes to this file, `.csv`, `.jsonl` or `.parquet`; `-` is stdout, which gets JSON lines, and
    /// `postgres://user@host/database?table=NAME` a table of a PostgreSQL database.
    #[must_use]
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.output = Some(path.into());
        self
    }

    /// Forecasts with this checkpoint of the run, in place of its best.
    #[must_use]
    pub fn checkpoint(mut self, checkpoint: CheckpointChoice) -> Self {
        self.checkpoint = checkpoint;
        self
    }

    /// Forecasts of these series alone. What the model is shown of the others, their cross-section, stays.
    #[must_use]
    pub fn symbols(mut self, symbols: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.symbols = symbols.into_iter().map(Into::into).collect();
        self
    }

    /// Forecasts made at this time or later, in place of the run's test part: the time of a forecast
    /// is that of the last row its model sees.
    #[must_use]
    pub fn from(mut self, time: impl Into<String>) -> Self {
        self.times.from = Some(time.into());
        self
    }

    /// Forecasts made before this time, in place of the run's test part.
    #[must_use]
    pub fn to(mut self, time: impl Into<String>) -> Self {
        self.times.to = Some(time.into());
        self
    }

    /// Forecasts made at the last so many time steps of each series, in place of the run's test part.
    #[must_use]
    pub fn last(mut self, steps: NonZeroUsize) -> Self {
        self.times.last = Some(steps);
        self
    }

    /// Forecasts of a part of the run's data.
    #[must_use]
    pub fn part(mut self, part: ForecastPart) -> Self {
        self.times.part = Some(part);
        self
    }

    /// Forecasts as if nothing after this time were known, neither rows nor outcomes: those that were made
    /// up to then, if nothing else chooses among them.
    #[must_use]
    pub fn as_of(mut self, time: impl Into<String>) -> Self {
        self.times.as_of = Some(time.into());
        self
    }

    /// Puts intervals of these levels around the forecasts, such as 0.9: calibrated on the run's validation
    /// part, so that at least this share of outcomes lies inside as long as what comes is like that part.
    #[must_use]
    pub fn intervals(mut self, levels: impl IntoIterator<Item = f64>) -> Self {
        self.intervals = levels.into_iter().collect();
        self
    }

    /// Tells the age of the newest rows by this time, in place of the clock.
    #[must_use]
    pub fn at_present(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Changes settings of the run: where its rows come from and what computes, but nothing that
    /// belongs to the model.
    #[must_use]
    pub fn with(mut self, overrides: Overrides) -> Self {
        self.overrides = overrides;
        self
    }

    /// Forecasts with models of your own too: `find` gives the one that `schema.json` describes.
    #[must_use]
    pub fn with_models(
        mut self,
        find: impl Fn(&ModelDescription) -> Result<Box<dyn Architecture>, ModelError> + 'static,
    ) -> Self {
        self.find_model = Box::new(find);
        self
    }

    /// Reads the source anew, whatever is in the cache.
    #[must_use]
    pub fn read_anew(mut self) -> Self {
        self.refresh = Refresh::Always;
        self
    }

    /// As [`Training::use_all_threads`](crate::Training::use_all_threads).
    #[must_use]
    pub fn use_all_threads(mut self) -> Self {
        self.all_threads = true;
        self
    }

    /// Makes the forecasts. The file appears when all of them are in it.
    ///
    /// # Errors
    /// There is no such run or it has no model; what it is asked for it cannot do; or whatever is
    /// wrong with the data or the device. In one line.
    pub fn write(&self, watch: &Watch) -> Result<Predicted, Error> {
        let run = &self.run;
        clear_leftovers(run);
        let checkpoint = checkpoint_choice::folder(run, &self.checkpoint)?;
        watch.tell(Event::Started(run));
        let (mut settings, changes) = run_dir::settings_of(run, &self.overrides)?;
        run_dir::warn_of_unfinished(run, &self.checkpoint.said(), watch.warnings());
        if let Some(change) = changes.iter().find(|change| is_of_the_model(change)) {
            let change = change.to_string();
            return Err(Error::settings(ForecastError::OfTheModel { change }));
        }
        settings.check_effects_of(&changes)?;
        let Contract { scaling, .. } = read_contract(&checkpoint)?;
        let mut series = self.symbols.clone();
        if has_cross_section(&scaling) {
            // Values are compared among the series that the model was trained to compare.
            let symbols = run_dir::own_settings(run)?.source.symbols;
            let loaded = std::mem::replace(&mut settings.source.symbols, symbols);
            if series.is_empty() {
                series = loaded;
            } else if !loaded.is_empty() {
                series = among(series, &loaded, watch)?;
            }
        }
        let settings = settings.with_absolute_paths();
        if self.all_threads {
            threads::claim(&settings.run);
        }
        let asked = Asked {
            checkpoint: self.checkpoint.clone(),
            output: self.output.as_deref(),
            times: self.times.clone(),
            series,
            intervals: &self.intervals,
            now: self.now,
            refresh: self.refresh,
            find_model: Some(&self.find_model),
            warn_of_left_out: true,
            limit: Limit::None,
            panel: None,
            test: None,
        };
        let predicted = predict_run(run, settings, &asked, watch)?;
        // The forecasts are there; a run that cannot be written to is no reason to call that a
        // failure.
        if let Err(error) = run_dir::keep_warnings(run, watch.warnings()) {
            watch.warnings().warn(error.to_string());
        }
        Ok(predicted)
    }
}

impl fmt::Debug for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it changes may hold a password.
        f.debug_struct("Forecast").field("run", &self.run).finish_non_exhaustive()
    }
}

/// Whether a setting belongs to the model, and not to where its rows come from or what computes.
fn is_of_the_model(change: &Override) -> bool {
    let key = change.key.as_str();
    let free = ["source.", "prefetch.", "run."].iter().any(|section| key.starts_with(section));
    let free = free || key == "train.batch_size";
    !free || key == "source.features"
}

/// Those of the series that are among the loaded ones, as it would be were no others there.
fn among(series: Vec<String>, loaded: &[String], watch: &Watch) -> Result<Vec<String>, Error> {
    let (kept, absent): (Vec<_>, Vec<_>) =
        series.into_iter().partition(|name| loaded.contains(name));
    if kept.is_empty() {
        return Err(Error::new(ErrorKind::Data, ForecastError::NotAmong { asked: absent }));
    }
    if !absent.is_empty() {
        let absent = list_names(&absent, 12);
        watch.warnings().warn(format!("no forecast of {absent}: not among source.symbols"));
    }
    Ok(kept)
}

fn has_cross_section(scaling: &Scaling) -> bool {
    let mut columns = scaling.features.iter().chain(&scaling.targets);
    columns.any(|column| column.cross_section != CrossSection::None)
}

/// Forecasts with a checkpoint of `run`.
pub(crate) fn predict_run(
    run: &Path,
    mut settings: Settings,
    asked: &Asked<'_>,
    watch: &Watch,
) -> Result<Predicted, Error> {
    let stop = watch.begin()?;
    let device = device(settings.prefetch.device)?;
    let (ring, make_slots) = ring(&device, &settings.prefetch)?;
    threads::claim_what_is_set(&settings.run);

    let checkpoint = checkpoint_choice::folder(run, &asked.checkpoint)?;
    let Contract { mut schema, scaling, model, .. } = read_contract(&checkpoint)?;
    if let Some(Span { from, until }) = asked.test {
        (schema.test_start, schema.test_end) = (from, (until != i64::MAX).then_some(until));
    }
    let (times, as_of) = (asked.times.times(&schema)?, asked.times.as_of(&schema)?);
    let output = match asked.output {
        Some(path) => {
            let owner = Owner { run, model: &model.kind };
            output::named(path, &owner, &settings.source, watch)?
        }
        None => Output::file(run.join(DEFAULT_OUTPUT))?,
    };
    let observer = {
        let (watch, warn_of_left_out) = (watch.clone(), asked.warn_of_left_out);
        Box::new(move |progress: &PredictProgress| {
            if let PredictProgress::Started { plan } = progress {
                watch.warn_of(plan, warn_of_left_out);
            }
            watch.tell(Event::Forecasting(progress));
        })
    };
    let forecaster = match asked.find_model {
        Some(find) => Forecaster::load_with_models(&checkpoint, find)?,
        None => Forecaster::load(&checkpoint)?,
    };
    let forecaster = forecaster.with_intervals(asked.intervals)?;
    let predictor = Predictor::of(forecaster, output, observer)?;

    // The model decides what it is shown, whatever the settings say now; they still name its
    // references, as a run's settings are its own.
    settings.target.columns.clone_from(&schema.targets);
    settings.window.segment.clone_from(&schema.segment);
    let mut purpose = PredictPurpose::new(schema, scaling);
    (purpose.times, purpose.as_of, purpose.series) = (times, as_of, asked.series.clone());
    purpose.calibrate = !asked.intervals.is_empty();
    purpose.now = Some(asked.now.map_or_else(clock::now, clock::micros));
    let normalize = NormalizeSettings {
        fit: settings.fit(),
        batch_size: settings.train.batch_size,
        rank: Rank::ALONE,
        threads: threads::share(&settings.run).normalize,
        purpose: purpose.into(),
        limit: asked.limit,
        ridge: false,
    };
    let rows = Rows::of(asked.panel, watch, || loader(&settings, asked.refresh, watch));
    let outcome = Pipeline::from("loader", rows, settings.prefetch.depth.get())
        .then("normalize", Normalize::new(normalize, make_slots))
        .then("prefetch", ring)
        .stop_on(stop)
        .run("predictor", predictor);
    watch.tell(Event::Ended);
    let mut outcome = outcome?;
    let interrupted = outcome.ending == Ending::Interrupted;
    if interrupted && !asked.output.is_some_and(output::is_stdout) {
        // What was made of them is gone.
        let report = &mut outcome.report;
        (report.rows, report.series, report.to_come) = (0, 0, 0);
        report.preview.clear();
    }
    Ok(Predicted {
        run: run.to_owned(),
        rows: outcome.report.rows,
        series: outcome.report.series,
        skipped: outcome.report.skipped,
        output: outcome.report.output,
        to_come: outcome.report.to_come,
        preview: outcome.report.preview,
        forward: outcome.report.forward,
        interrupted,
        stages: outcome.stages,
    })
}

impl Predicted {
    /// What was written where, as a line; `None` when nothing was.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let (rows, series) = (grouped(self.rows), grouped(self.series));
        let output = self.output.as_ref()?;
        let format = if output::is_parquet_by_default(output) { " (Parquet)" } else { "" };
        let output = output.display();
        let to_come = match self.to_come {
            0 => String::new(),
            rows => format!(", {} of them past the end of their series", grouped(rows)),
        };
        Some(format!("{rows} forecasts of {series} series in {output}{format}{to_come}"))
    }
}
