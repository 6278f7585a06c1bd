//! From a table to trained weights to forecasts, with the training device always fed.
//!
//! [`Settings`] in, a [`Report`] out: [`train`] does all of it in one call. [`Training`] is the same in
//! steps, for a [`Watch`] that shows what happens and can stop it, a model of your own, or a run that
//! goes on. [`Backtest`] is every fold of a walk forward through time, and one table of what they forecast.
//! [`Forecast`] makes forecasts with a run, [`Evaluating`] judges a file of them, [`import`]
//! fills the cache beforehand. The
//! `millstream` command is a thin front of these. Each stage is a crate of its own besides, for
//! programs that want no more than one.
//!
//! ```no_run
//! let settings = millstream::Settings::from_toml(
//!     r#"
//!     source = { kind = "csv", path = "prices.csv" }
//!     target.columns = ["close"]
//!     "#,
//! )?;
//! let report = millstream::train(settings)?;
//! println!("{:?}", report.test.map(|test| test.overall));
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! A library changes nothing about the process: no signal is caught ([`StopHandle`] is what a handler
//! of yours would call), and malloc and libtorch's threads are left alone unless you ask
//! ([`keep_freed_memory`], [`Training::use_all_threads`], a number in `run.threads`).

mod backtest;
mod checkpoint_choice;
mod clock;
mod dead_runs;
mod device;
mod doctor;
mod error;
mod evaluate_file;
mod export;
mod forecast;
mod forecast_times;
mod import;
mod memory;
mod output;
mod report;
mod run_dir;
mod runs;
mod secrets;
mod seeds;
mod settings;
mod shared_panel;
mod texts;
mod threads;
mod training;
mod trial;
mod unsaved;
mod watch;

pub use crate::{
    backtest::{Backtest, BacktestReport, BacktestRun, FoldReport, Period, Refit, resume_command},
    checkpoint_choice::{CheckpointChoice, RunCheckpoint},
    doctor::{Finding, examine},
    error::{Error, ErrorKind},
    evaluate_file::Evaluating,
    export::{ExportFormat, Exported, export},
    forecast::{Forecast, Predicted},
    forecast_times::ForecastPart,
    import::{import, verify},
    memory::keep_freed_memory,
    report::Report,
    runs::{RunChoice, newest},
    secrets::hide_passwords,
    seeds::{SeedsReport, Spread},
    settings::{Overrides, RunSettings, Settings, Threads},
    texts::{grouped, shell_word},
    training::{NOTHING_SAVED, Run, Trained, Training, train},
    trial::Trial,
    unsaved::UnsavedRun,
    watch::{Event, FoldProgress, StopHandle, Watch},
};

/// What settings, reports and events are made of.
pub use millstream_data as data;
pub use millstream_evaluate as evaluate;
pub use millstream_loader::{ImportReport, LoadProgress, SourceKind};
pub use millstream_model as model;
pub use millstream_normalize as normalize;
pub use millstream_normalize::Limit;
pub use millstream_predictor::PredictProgress;
pub use millstream_stage::{LineCounters, StageReport, Warnings};
pub use millstream_trainer as trainer;
pub use millstream_trainer::{
    Baseline, EpochLoss, Figures, Metrics, Progress, QuantileMetrics, StepMetrics,
};
