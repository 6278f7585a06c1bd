//! The host waits for the device only where a figure is due.

use crate::stream::{Stream, settings, trainer};
use millstream_stage::{Ending, Sink};

fn check(log_every: u64, expected: u64) {
    let run = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.log_every = log_every.try_into().unwrap();
    // Two epochs of 10 steps, with validation before and after each, and a test.
    let stream = Stream::new(2, [160, 40, 40]);
    let mut trainer = trainer(settings, run.path());
    stream.feed(&mut trainer, &stream.tags()).unwrap();
    let report = trainer.finish(Ending::Drained).unwrap();
    assert_eq!(report.device_reads, expected, "with a log line every {log_every} steps");
}

/// Reads that do not depend on the log: three validation passes, the test and one checkpoint per
/// epoch.
const PASSES_AND_CHECKPOINTS: u64 = 3 + 1 + 2;

#[test]
fn reads_are_log_lines_epochs_passes_and_checkpoints() {
    // No log line: each epoch's loss is read at its end.
    check(1000, PASSES_AND_CHECKPOINTS + 2);
    // Lines at 4, 8, 12, 16 and 20; the last is the end of epoch 2, which needs no read of its own.
    check(4, PASSES_AND_CHECKPOINTS + 5 + 1);
    // Every step.
    check(1, PASSES_AND_CHECKPOINTS + 20);
}
