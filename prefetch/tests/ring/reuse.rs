//! Slots reused very often, under random delays, with every batch checked on the device.

use crate::line::{Found, Run};
use fake_cuda::{Config, Simulator};

/// A million; fewer where the variable says so, as under valgrind.
fn reuses() -> u64 {
    let count = std::env::var("MILLSTREAM_TEST_REUSES");
    count.map_or(1_000_000, |count| count.parse().expect("a number of reuses"))
}

#[test]
fn a_million_reuses_mix_up_nothing() {
    // 300 turns of a spinning loop are some microseconds, about as long as a hand-over takes.
    let simulator = Simulator::start(Config { jitter: 300, ..Config::default() });
    let (batches, depth) = (reuses(), 3);
    let found = Run { batches, depth, ..Run::default() }.go(&simulator).unwrap();
    assert_eq!(found, Found { seen: batches, right: batches, wrong: 0 });
    assert_eq!(simulator.hazards(), [""; 0]);
    assert_eq!(simulator.balance(), 0);
}

#[test]
fn other_depths_and_consumers_that_do_not_finish_are_safe_too() {
    use crate::line::Manner::{NeverFinishes, SkipsOdd, Whole};
    let batches = reuses().min(2_000);
    for (depth, manner) in [(1, Whole), (2, Whole), (7, Whole), (3, NeverFinishes), (3, SkipsOdd)] {
        let simulator = Simulator::start(Config { jitter: 300, ..Config::default() });
        let found = Run { batches, depth, manner, ..Run::default() }.go(&simulator).unwrap();
        let used = if manner == SkipsOdd { batches.div_ceil(2) } else { batches };
        assert_eq!(found, Found { seen: batches, right: used, wrong: 0 }, "{depth} {manner:?}");
        assert_eq!(simulator.hazards(), [""; 0], "{depth} {manner:?}");
        assert_eq!(simulator.balance(), 0, "{depth} {manner:?}");
    }
}
