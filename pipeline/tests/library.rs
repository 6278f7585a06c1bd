//! The library as a program of others uses it: settings in, report out, and the process is left alone.

use millstream::model::{
    Architecture, Inputs, Mode, Model, ModelDescription, ModelError, Parameters, Shape,
};
use millstream::{
    Backtest, ErrorKind, Event, FoldProgress, Forecast, Limit, Overrides, Progress, Settings,
    Training, Trial, Watch,
};
use millstream_data::SplitMix64;
use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};
use tch::{Device, Tensor};

fn settings(folder: &Path) -> Settings {
    let mut settings = Settings::from_toml(
        r#"
        source = { cache = "", generate = { series = 12, rows = 100, short = 0.0 } }
        window.lookback = 10
        train = { epochs = 3, batch_size = 64, model_options.hidden = 4 }
        "#,
    )
    .expect("these are settings");
    settings.run.dir = folder.join("runs");
    settings
}

fn stopping_at(at: u64) -> Watch {
    let watch = Watch::default();
    let stop = watch.stop_handle();
    watch.on_event(move |event| match event {
        Event::Training(Progress::Step { step, .. }) if *step == at => stop.stop(),
        _ => {}
    })
}

/// What a signal does, as a number: a handler, the default or nothing.
fn action(signal: libc::c_int) -> usize {
    // SAFETY: zeros are a value of this struct of numbers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action it only fills in the old one.
    let found = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    assert_eq!(found, 0);
    action.sa_sigaction
}

#[test]
fn a_run_gives_its_report_and_leaves_the_process_alone() {
    let folder = tempfile::tempdir().unwrap();
    tch::set_num_threads(1);
    let actions = || [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGXFSZ].map(action);
    let before = actions();
    let report = millstream::train(settings(folder.path())).unwrap();
    assert_eq!((tch::get_num_threads(), actions()), (1, before));
    assert!(report.test.as_ref().unwrap().overall.mse.unwrap().is_finite());
    let kept = fs::read(report.run.join("report.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept, serde_json::to_value(&report).unwrap());

    // A number in the settings asks for it.
    let mut asked = settings(folder.path());
    asked.run.train_threads = millstream::Threads::Count(2.try_into().unwrap());
    millstream::train(asked).unwrap();
    assert_eq!(tch::get_num_threads(), 2);
}

#[test]
fn what_a_program_sets_is_judged_like_a_file() {
    let check = |change: fn(&mut Settings), expected: &str| {
        let mut settings = Settings::default();
        change(&mut settings);
        let error = Training::new(settings).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Settings, expected));
    };
    check(
        |s| s.split.seed = 3,
        "the program: split.seed = 3 has no effect: it needs split.by = \"series\"",
    );
    check(
        |s| s.prefetch.depth = 5_000.try_into().unwrap(),
        "the program: prefetch.depth = 5000 is too much: use at most 1024; 3 keep the device busy",
    );
    check(|s| s.train.epochs = 0, "train.epochs is 0, but must be at least 1");
    let error = Settings::from_toml("train.epochs = 3\ntrain.epoch = 3").unwrap_err().to_string();
    assert!(error.starts_with("line 2 of the settings: unknown setting `train.epoch`"), "{error}");
}

#[test]
fn whoever_looks_on_sees_it_and_can_stop_it() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let running = Arc::new(Mutex::new(0));
    let began = Arc::clone(&running);
    let watch = Watch::default().on_event(move |event| {
        if let Event::Running(_) = event {
            return *began.lock().unwrap() += 1;
        }
        let what = match event {
            Event::Loading(_) => "loading",
            Event::Started(_) => "started",
            Event::Training(_) => "training",
            Event::Ended => "ended",
            _ => "other",
        };
        let mut kept = kept.lock().unwrap();
        if kept.last() != Some(&what) {
            kept.push(what);
        }
    });
    Training::new(settings(folder.path())).unwrap().start().unwrap().train(&watch).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["loading", "started", "training", "ended"]);
    assert_eq!(*running.lock().unwrap(), 1, "the counters of the line were shown once");

    // Asked before it began, it leaves nothing.
    let runs = || fs::read_dir(folder.path().join("runs")).unwrap().count();
    let before = runs();
    watch.stop_handle().stop();
    let run = Training::new(settings(folder.path())).unwrap().start().unwrap();
    let error = run.train(&watch).unwrap_err();
    assert_eq!((error.kind(), runs()), (ErrorKind::Interrupted, before));
    assert_eq!(error.to_string(), "interrupted before it began; nothing was done");
}

#[test]
fn a_run_is_tried_out_before_it_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let trying = |trial| {
        let training = Training::new(settings(folder.path())).unwrap().trying(trial).unwrap();
        training.start().unwrap().train(&Watch::default()).unwrap()
    };
    let mut tried = trying(Trial::fast_dev_run());
    assert!(tried.forecast(&Watch::default()).unwrap().is_some_and(|found| found.rows == 128));
    let report = tried.into_report();
    assert_eq!((report.steps, report.run.as_path()), (2, Path::new("")));
    assert!(report.test.is_some() && !folder.path().join("runs").exists());

    let three = 3.try_into().unwrap();
    let limited = trying(Trial::limit_batches(three)).into_report();
    assert_eq!((limited.steps, limited.limit), (3 * 3, Limit::Batches(three)));
    assert!(limited.warnings.iter().any(|line| line.contains("limited to 3 batches")));
    let overfitted = trying(Trial::overfit_batches(three)).into_report();
    assert_eq!((overfitted.steps, overfitted.samples), (3 * 3, 3 * 3 * 64));
    assert!(overfitted.test.is_none() && overfitted.validation.is_some());
}

#[test]
fn a_run_whose_time_is_up_is_saved_or_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut trial = Trial::default();
    trial.max_time = Some(std::time::Duration::ZERO);
    let training = Training::new(settings(folder.path())).unwrap().trying(trial).unwrap();
    let told = Arc::new(Mutex::new(false));
    let heard = Arc::clone(&told);
    let watch = Watch::default().on_event(move |event| {
        *heard.lock().unwrap() |= matches!(event, Event::TimeIsUp);
    });
    let error = training.start().unwrap().train(&watch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(*told.lock().unwrap() && !folder.path().join("runs").exists());

    let mut long = settings(folder.path());
    long.train.epochs = 100_000;
    trial.max_time = Some(std::time::Duration::from_secs(3));
    let training = Training::new(long).unwrap().trying(trial).unwrap();
    let report = training.start().unwrap().train(&Watch::default()).unwrap().into_report();
    assert!(report.interrupted && report.steps > 0, "{report:?}");
    let resumed = Training::resume(&report.run, &Overrides::default()).unwrap();
    let again = resumed.trying(trial).unwrap().start().unwrap();
    assert!(again.train(&Watch::default()).unwrap().report().steps > report.steps);
}

/// Forecasts from a window's last row.
#[derive(Debug, Clone, Copy)]
struct LastRow;

#[derive(Debug)]
struct Network(Parameters);

impl Architecture for LastRow {
    fn name(&self) -> &str {
        "last_row"
    }

    fn options(&self) -> serde_json::Value {
        serde_json::json!({})
    }

    fn build(&self, shape: &Shape, seed: u64, on: Device) -> Result<Box<dyn Model>, ModelError> {
        let (mut parameters, mut random) = (Parameters::default(), SplitMix64::new(seed));
        parameters.draw("head.weight", &[1, shape.features], 0.1, &mut random, on)?;
        Ok(Box::new(Network(parameters)))
    }
}

impl Model for Network {
    fn forward(&self, inputs: &Inputs, _: Mode) -> Result<Tensor, ModelError> {
        let last = inputs.values.f_select(1, -1)?;
        Ok(last.f_linear(&self.0.tensors[0], None::<&Tensor>)?.f_unsqueeze(1)?)
    }

    fn parameters(&self) -> &Parameters {
        &self.0
    }

    fn parameters_mut(&mut self) -> &mut Parameters {
        &mut self.0
    }
}

#[test]
fn a_model_of_ones_own_goes_on_to_the_same_bits_and_forecasts() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let training = |folder: &Path| Training::new(settings(folder)).unwrap().with_model(LastRow);
    let whole = training(one.path()).start().unwrap().train(&Watch::default()).unwrap();
    let whole = whole.into_report();
    let cut = training(two.path()).start().unwrap().train(&stopping_at(7)).unwrap().into_report();
    assert!(cut.interrupted && cut.steps == 7, "{cut:?}");

    let other = Training::resume(&cut.run, &Overrides::of(["train.epochs=9"])).unwrap_err();
    assert!(other.to_string().contains("would change train.epochs from 3 to 9"), "{other}");
    let resumed = Training::resume(&cut.run, &Overrides::default()).unwrap().with_model(LastRow);
    let resumed = resumed.start().unwrap().train(&Watch::default()).unwrap().into_report();
    assert_eq!((resumed.interrupted, resumed.steps), (false, whole.steps));
    let weights = |run: &Path| fs::read(run.join("checkpoints/last/model.safetensors")).unwrap();
    assert_eq!(weights(&whole.run), weights(&resumed.run));

    let refused = Forecast::of(&resumed.run).write(&Watch::default()).unwrap_err().to_string();
    assert!(refused.contains("there is no model \"last_row\" here"), "{refused}");
    let find = |_: &ModelDescription| Ok(Box::new(LastRow) as Box<dyn Architecture>);
    let output = two.path().join("forecasts.csv");
    let forecast = Forecast::of(&resumed.run).with_models(find).output(&output);
    let rows = forecast.write(&Watch::default()).unwrap().rows;
    assert_eq!(fs::read_to_string(output).unwrap().lines().count() as u64, 1 + rows);
}

/// How many rows had been loaded, whenever the watcher was told.
fn watching_loads() -> (Watch, Arc<Mutex<Vec<u64>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&told);
    let watch = Watch::default().on_event(move |event| {
        if let Event::Loading(progress) = event {
            kept.lock().expect("nobody panics").push(progress.rows);
        }
    });
    (watch, told)
}

#[test]
fn the_folds_of_a_backtest_share_one_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    (settings.split.train, settings.split.folds) = (0.5, 4);
    let (alone, rows_alone) = watching_loads();
    Training::new(settings.clone()).unwrap().start().unwrap().train(&alone).unwrap();
    let rows_alone = rows_alone.lock().unwrap();
    let all = *rows_alone.iter().max().unwrap();
    let loads = |told: &[u64]| told.iter().filter(|rows| **rows == all).count();
    let once = loads(&rows_alone);

    let (watch, told) = watching_loads();
    let report = Backtest::new(settings.clone()).unwrap().start().unwrap().run(&watch).unwrap();
    assert_eq!((report.folds.len(), loads(&told.lock().unwrap())), (4, once));
    assert!(report.output.is_some_and(|path| path.is_file()) && !report.interrupted);
    // One that loads for itself is seen.
    Training::new(settings).unwrap().start().unwrap().train(&watch).unwrap();
    assert_eq!(loads(&told.lock().unwrap()), 2 * once);
}

#[test]
fn a_backtest_says_which_fold_it_is_at_and_stops_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path());
    (settings.split.train, settings.split.folds) = (0.5, 3);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let watch = Watch::default();
    let stop = watch.stop_handle();
    let watch = watch.on_event(move |event| match event {
        Event::Fold(progress) => kept.lock().unwrap().push(progress),
        Event::Training(Progress::Step { step: 7, .. }) if kept.lock().unwrap().len() == 2 => {
            stop.stop();
        }
        _ => {}
    });
    let report = Backtest::new(settings).unwrap().start().unwrap().run(&watch).unwrap();
    assert!(report.interrupted && report.folds.len() == 1 && report.output.is_none());
    let seen = seen.lock().unwrap();
    let at: Vec<(usize, usize)> =
        seen.iter().map(|FoldProgress { fold, of, .. }| (*fold, *of)).collect();
    assert_eq!(at, [(1, 3), (2, 3)]);
    assert!(
        seen[0].before == 0.0 && seen[1].before == seen[0].share && seen[1].share > seen[0].share
    );

    let resumed = Backtest::resume(&report.run, &Overrides::default()).unwrap();
    let resumed = resumed.start().unwrap().run(&Watch::default()).unwrap();
    assert!(!resumed.interrupted && resumed.folds.len() == 3);
    let error = Backtest::resume(&report.run, &Overrides::default()).unwrap_err();
    assert!(error.to_string().ends_with("has finished; there is nothing to resume"), "{error}");
}
