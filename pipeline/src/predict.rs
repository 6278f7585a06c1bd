//! The prediction line: loader → normalize → prefetch → predictor.

use crate::{
    cli::PredictArgs,
    device::{device, ring},
    failure::Failure,
    progress::Display,
    run_dir,
    settings::Settings,
    threads::share,
    train::loader,
};
use crossbeam_channel::Receiver;
use millstream_normalize::{
    ForecastTimes, Normalize, NormalizeSettings, Purpose, Rank, Span, parse_time,
};
use millstream_predictor::{Contract, Output, PredictProgress, Predictor, read_contract};
use millstream_stage::{Ending, Pipeline, StageReport};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The JSON result of `predict`, as documented in DESIGN.md.
#[derive(Debug, Serialize)]
pub(crate) struct Predicted {
    pub(crate) run: PathBuf,
    pub(crate) rows: u64,
    pub(crate) series: u64,
    pub(crate) skipped: u64,
    pub(crate) output: Option<PathBuf>,
    #[serde(skip)]
    pub(crate) stages: Vec<StageReport>,
    #[serde(skip)]
    pub(crate) interrupted: bool,
}

/// Forecasts as the flags say.
pub(crate) fn predict(
    args: &PredictArgs,
    display: &Display,
    stop: &Receiver<()>,
) -> Result<Predicted, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => {
            let settings = Settings::load(args.common.config.as_deref(), &args.common.set)?;
            run_dir::newest(&settings.run.dir)?
        }
    };
    let settings = run_dir::settings_of(&run, &args.common.set)?;
    predict_run(&run, settings, args.output.as_deref(), args.from.as_deref(), display, stop)
}

/// Forecasts with the best checkpoint of `run`.
pub(crate) fn predict_run(
    run: &Path,
    mut settings: Settings,
    output: Option<&Path>,
    from: Option<&str>,
    display: &Display,
    stop: &Receiver<()>,
) -> Result<Predicted, Failure> {
    let device = device(settings.prefetch.device)?;
    let (ring, make_slots) = ring(&device, &settings.prefetch)?;
    let threads = share(&settings.run);
    tch::set_num_threads(i32::try_from(threads.train.get()).unwrap_or(i32::MAX));

    let checkpoint = run_dir::best_checkpoint(run);
    let Contract { schema, scaling } = read_contract(&checkpoint)?;
    let times = match from {
        None => ForecastTimes::TestPart,
        Some(text) => {
            let from = parse_time(schema.time_kind, text).ok_or_else(|| {
                let example = schema.time_kind.format(schema.test_start);
                Failure::settings(format!(
                    "--from {text:?} is not a time; write it like {example:?}"
                ))
            })?;
            ForecastTimes::MadeIn(Span { from, until: i64::MAX })
        }
    };
    let output = output.map_or_else(|| run.join("predictions.parquet"), Path::to_owned);
    let is_csv = output.extension().is_some_and(|extension| extension == "csv");
    let output = if is_csv { Output::Csv(output) } else { Output::Parquet(output) };
    let progress = display.clone();
    let predictor = Predictor::new(
        &checkpoint,
        output,
        Box::new(move |p: &PredictProgress| progress.predicting(p.windows, p.windows_total)),
    )?;

    // The model decides what it is shown, whatever the settings say now; they still name its
    // references, as a run's settings are its own.
    settings.target.columns.clone_from(&schema.targets);
    settings.window.segment.clone_from(&schema.segment);
    let loader = loader(&settings, display);
    let depth = settings.prefetch.depth;
    let normalize = NormalizeSettings {
        fit: settings.fit(),
        batch_size: settings.train.batch_size,
        rank: Rank::ALONE,
        threads: threads.normalize,
        purpose: Purpose::Predict { schema: Box::new(schema), scaling, times, series: Vec::new() },
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
        interrupted: outcome.ending == Ending::Interrupted,
        stages: outcome.stages,
    })
}
