//! The three edges: with all of them no hazard, and without any one of them a hazard every time.

use crate::line::Run;
use fake_cuda::{Config, Hazard, Ignore, Simulator};

/// Runs with calls of the driver left out, and counts the hazards of each kind.
fn without(ignore: Ignore) -> [u64; Hazard::ALL.len()] {
    let simulator = Simulator::start(Config { ignore, ..Config::default() });
    // Wrong values may well be seen here; that is the point.
    Run::default().go(&simulator).unwrap();
    for text in simulator.hazards().iter().take(3) {
        println!("without {ignore:?}: {text}");
    }
    Hazard::ALL.map(|hazard| simulator.count(hazard))
}

#[test]
fn with_all_three_edges_there_is_no_hazard() {
    assert_eq!(without(Ignore::Nothing), [0; Hazard::ALL.len()]);
}

#[test]
fn without_the_ready_wait_the_consumer_reads_what_is_still_being_copied() {
    // Of 100 batches every one is read unordered; and every reuse overwrites it unordered.
    assert!(without(Ignore::WaitsOfDefaultStream)[Hazard::Unordered as usize] >= 100);
}

#[test]
fn without_the_done_wait_the_copy_overwrites_what_is_still_being_read() {
    // With three halves, 97 of 100 batches overwrite another.
    assert!(without(Ignore::WaitsOfOtherStreams)[Hazard::Unordered as usize] >= 97);
}

#[test]
fn without_the_host_reuse_wait_the_filler_overwrites_what_is_still_being_copied() {
    assert!(without(Ignore::EventSynchronize)[Hazard::HostWrite as usize] >= 97);
}
