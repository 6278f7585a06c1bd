//! What the thread that trains asks of the driver between two steps: nothing that waits.
//!
//! What it asks of libtorch is counted in `trainer/tests/it/operators.rs`; the simulated driver sees the rest.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use fake_cuda::{Call, Config, Control, Simulator};
use millstream::{Event, Progress, Settings, Training, Watch};
use std::{
    process::Command,
    sync::{Arc, Mutex},
};

/// Names the driver's library, which a program finds by nothing else.
const DRIVER: &str = "MILLSTREAM_FAKE_CUDA";

const SETTINGS: &str = r#"
    source = { cache = "", generate = { series = 24, rows = 120, features = 4 } }
    window.lookback = 12
    prefetch.device = "fake-cuda"
    train = { epochs = 2, batch_size = 64, log_every = 5, model_options.hidden = 8 }
    run.threads = 1
"#;

/// Calls that wait, on the thread that trains, since the step before: of every step of both epochs.
/// `mischief` is done once in each.
fn waits(simulator: &Simulator, mischief: fn(&Control)) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::from_toml(SETTINGS).unwrap();
    settings.run.dir = folder.path().join("runs");
    let (counts, control) = (Arc::new(Mutex::new(Vec::new())), **simulator);
    let seen = Arc::clone(&counts);
    let watch = Watch::default().on_event(move |event| {
        if let Event::Training(Progress::Step { .. }) = event {
            seen.lock().unwrap().push(control.calls_here(Call::synchronises));
            mischief(&control);
        }
    });
    let run = Training::new(settings).unwrap().start().unwrap();
    let steps = run.train(&watch).unwrap().into_report().steps;
    let counts = counts.lock().unwrap();
    assert_eq!(counts.len() as u64, steps);
    counts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn the_thread_that_trains_never_waits_for_the_driver() {
    if std::env::var_os(DRIVER).is_none() {
        // The program under test reads the variable; to set it beside other threads is not allowed.
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "the_thread_that_trains_never_waits_for_the_driver", "--nocapture"]);
        assert!(again.env(DRIVER, Simulator::library()).status().unwrap().success());
        return;
    }
    let simulator = Simulator::start(Config::default());
    let found = waits(&simulator, |_| {});
    // Two epochs, with log lines, a validation and checkpoints between the steps.
    assert!(found.len() > 40 && found.iter().all(|count| *count == 0), "{found:?}");
    assert_eq!(simulator.hazards(), [""; 0]);
    let found = waits(&simulator, |control| control.synchronize().unwrap());
    assert!(found.iter().all(|count| *count == 1), "{found:?}");
}
