//! The prediction line: loader → normalize → prefetch → predictor.

use crate::{
    cli::PredictArgs,
    device::{device, ring},
    failure::Failure,
    interrupt, output,
    progress::{Display, grouped, left_out},
    report::{path_as_text, some_path_as_text},
    run_dir,
    runs::{self, RunChoice},
    settings::{Override, Settings},
    threads::share,
    train::loader,
};
use crossbeam_channel::Receiver;
use millstream_data::{CrossSection, DataSchema, Scaling};
use millstream_loader::Refresh;
use millstream_normalize::{ForecastTimes, Normalize, NormalizeSettings, Purpose, Rank, Span};
use millstream_predictor::{Contract, Output, PredictProgress, Predictor, read_contract};
use millstream_stage::{Ending, Pipeline, StageReport, Warnings};
use millstream_trainer::clear_leftovers;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The JSON result of `predict`, as documented in DESIGN.md.
#[derive(Debug, Serialize)]
pub(crate) struct Predicted {
    #[serde(serialize_with = "path_as_text")]
    pub(crate) run: PathBuf,
    pub(crate) rows: u64,
    pub(crate) series: u64,
    pub(crate) skipped: u64,
    #[serde(serialize_with = "some_path_as_text")]
    pub(crate) output: Option<PathBuf>,
    /// Of the rows, those that forecast past the last row of their series.
    pub(crate) to_come: u64,
    #[serde(skip)]
    pub(crate) stages: Vec<StageReport>,
    #[serde(skip)]
    pub(crate) interrupted: bool,
}

/// What is asked of a run.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) output: Option<&'a Path>,
    pub(crate) from: Option<&'a str>,
    pub(crate) to: Option<&'a str>,
    /// Only these series, of those that are loaded; empty for all.
    pub(crate) series: Vec<String>,
    pub(crate) refresh: Refresh,
    /// Whether to warn of windows that are left out, as training has not just done.
    pub(crate) warn_of_left_out: bool,
}

/// What a person is shown while it runs, and how he stops it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) display: &'a Display,
    pub(crate) warnings: &'a Warnings,
    pub(crate) stop: &'a Receiver<()>,
}

#[derive(Debug, thiserror::Error)]
enum PredictSettingsError {
    #[error("{change}, but that is the model's own; train a model with it, or leave it out")]
    OfTheModel { change: String },
    #[error("--{flag} {text:?} is not a time; write it like {example:?}")]
    Time { flag: &'static str, text: String, example: String },
    #[error("--from {from} is not before --to {to}, so no forecast is made between them")]
    NoTime { from: String, to: String },
    #[error("{} has no model yet, as its first epoch has not ended; {}", .run.display(), if *.can_go_on { format!("go on with: millstream train --resume {}", .run.display()) } else { "nothing of it was saved, so train anew".to_owned() })]
    NoModel { run: PathBuf, can_go_on: bool },
}

/// Forecasts as the flags say.
pub(crate) fn predict(args: &PredictArgs, watch: Watch<'_>) -> Result<Predicted, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => {
            let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
            let RunChoice { run, remarks } = runs::newest(&settings.run.dir)?;
            remarks.into_iter().for_each(|remark| watch.warnings.warn(remark));
            run
        }
    };
    clear_leftovers(&run);
    if !run_dir::has_model(&run) && run.join("config.toml").exists() {
        let can_go_on = run_dir::can_go_on(&run);
        return Err(Failure::settings(PredictSettingsError::NoModel { run, can_go_on }));
    }
    watch.display.say(&format!("run       {}", run.display()));
    let (mut settings, changes) = run_dir::settings_of(&run, &args.common.set)?;
    if !run_dir::has_final_report(&run) {
        watch.warnings.warn(format!(
            "{} has not come to its end; this is its best model so far",
            run.display()
        ));
    }
    if let Some(change) = changes.iter().find(|change| is_of_the_model(change)) {
        let change = change.to_string();
        return Err(Failure::settings(PredictSettingsError::OfTheModel { change }));
    }
    let Contract { scaling, .. } = read_contract(&run_dir::best_checkpoint(&run))?;
    let mut series = Vec::new();
    if has_cross_section(&scaling) {
        // Values are compared among the series that the model was trained to compare.
        let symbols = run_dir::own_settings(&run)?.source.symbols;
        series = std::mem::replace(&mut settings.source.symbols, symbols);
    }
    let settings = settings.with_absolute_paths();
    let asked = Asked {
        output: args.output.as_deref(),
        from: args.from.as_deref(),
        to: args.to.as_deref(),
        series,
        refresh: if args.refresh { Refresh::Always } else { Refresh::IfNewer },
        warn_of_left_out: true,
    };
    predict_run(&run, settings, &asked, watch)
}

/// Whether a setting belongs to the model, and not to where its rows come from or what computes.
fn is_of_the_model(change: &Override) -> bool {
    let key = change.key.as_str();
    let free = ["source.", "prefetch.", "run."].iter().any(|section| key.starts_with(section));
    let free = free || ["window.stride", "train.batch_size"].contains(&key);
    !free || key == "source.features"
}

fn has_cross_section(scaling: &Scaling) -> bool {
    let mut columns = scaling.features.iter().chain(&scaling.targets);
    columns.any(|column| column.cross_section != CrossSection::None)
}

/// Forecasts with the best checkpoint of `run`.
pub(crate) fn predict_run(
    run: &Path,
    mut settings: Settings,
    asked: &Asked<'_>,
    Watch { display, warnings, stop }: Watch<'_>,
) -> Result<Predicted, Failure> {
    let device = device(settings.prefetch.device)?;
    let (ring, make_slots) = ring(&device, &settings.prefetch)?;
    let threads = share(&settings.run);
    tch::set_num_threads(i32::try_from(threads.train.get()).unwrap_or(i32::MAX));

    let checkpoint = run_dir::best_checkpoint(run);
    let Contract { schema, scaling, .. } = read_contract(&checkpoint)?;
    let times = asked.times(&schema)?;
    let output = match asked.output {
        Some(path) => output::named(path, run, &settings.source)?,
        None => Output::Parquet(run.join("predictions.parquet")),
    };
    let observer = {
        let (display, warnings) = (display.clone(), warnings.clone());
        let warn_of_left_out = asked.warn_of_left_out;
        Box::new(move |progress: &PredictProgress| match progress {
            PredictProgress::Started { plan } => {
                interrupt::is_under_way();
                let left_out = left_out(&plan.windows).filter(|_| warn_of_left_out);
                plan.warnings.iter().cloned().chain(left_out).for_each(|line| warnings.warn(line));
            }
            PredictProgress::Forecast { windows, of } => display.predicting(*windows, *of),
            _ => {}
        })
    };
    let predictor = Predictor::new(&checkpoint, output, observer)?;

    // The model decides what it is shown, whatever the settings say now; they still name its
    // references, as a run's settings are its own.
    settings.target.columns.clone_from(&schema.targets);
    settings.window.segment.clone_from(&schema.segment);
    let loader = loader(&settings, asked.refresh, display, warnings);
    let depth = settings.prefetch.depth;
    let series = asked.series.clone();
    let normalize = NormalizeSettings {
        fit: settings.fit(),
        batch_size: settings.train.batch_size,
        rank: Rank::ALONE,
        threads: threads.normalize,
        purpose: Purpose::Predict { schema: Box::new(schema), scaling, times, series },
    };
    let outcome = Pipeline::from("loader", loader, depth.get())
        .then("normalize", Normalize::new(normalize, make_slots))
        .then("prefetch", ring)
        .stop_on(stop.clone())
        .run("predictor", predictor);
    display.done();
    let outcome = outcome?;
    Ok(Predicted {
        run: run.to_owned(),
        rows: outcome.report.rows,
        series: outcome.report.series,
        skipped: outcome.report.skipped,
        output: outcome.report.output,
        to_come: outcome.report.to_come,
        interrupted: outcome.ending == Ending::Interrupted,
        stages: outcome.stages,
    })
}

impl Predicted {
    /// What was written where, as a line; `None` when nothing was.
    pub(crate) fn line(&self) -> Option<String> {
        let (rows, series) = (grouped(self.rows), grouped(self.series));
        let output = self.output.as_ref()?.display();
        let to_come = match self.to_come {
            0 => String::new(),
            rows => format!(", {} of them past the end of their series", grouped(rows)),
        };
        Some(format!("{rows} forecasts of {series} series in {output}{to_come}"))
    }
}

impl Asked<'_> {
    fn times(&self, schema: &DataSchema) -> Result<ForecastTimes, Failure> {
        let kind = schema.time_kind;
        let parse = |flag, text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => kind.parse(text).map(Some).ok_or_else(|| {
                // A run without a test part has no such time.
                let example = [schema.test_start, 0].into_iter().find(|time| *time < i64::MAX);
                let (text, example) = (text.to_owned(), kind.format(example.unwrap_or(0)));
                Failure::settings(PredictSettingsError::Time { flag, text, example })
            }),
        };
        match (parse("from", self.from)?, parse("to", self.to)?) {
            (None, None) => Ok(ForecastTimes::TestPart),
            (Some(from), Some(to)) if from >= to => {
                let (from, to) = (kind.format(from), kind.format(to));
                Err(Failure::settings(PredictSettingsError::NoTime { from, to }))
            }
            (from, to) => {
                let (from, until) = (from.unwrap_or(i64::MIN), to.unwrap_or(i64::MAX));
                Ok(ForecastTimes::MadeIn(Span { from, until }))
            }
        }
    }
}
