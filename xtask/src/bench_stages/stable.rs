//! Which cases repeat: run twice at one commit on an idle machine, their ratios agree.
//!
//! A case is stable when ours and its floor are limited by the same thing (the memory, the
//! arithmetic, the server, a clock), so that what disturbs one disturbs the other. The rest is
//! measured and shown, but a difference of a few percent between two of its figures proves
//! nothing:
//!
//! - `stage/hand-over` is a matter of who wakes whom on which core, and criterion measures ours and
//!   the floor one after the other;
//! - `normalize/fill-shuffled-one-thread-floor` sets two threads beside one, and
//!   `normalize/fit-apply-ordinary-pages-floor` is about how the kernel comes by pages;
//! - `trainer/steps-small-model` has operations of microseconds, between which libtorch's threads
//!   wait for each other;
//! - the client's CPU beside the raw drain depends on how often the drain wakes up, and a single
//!   connection on where the server's one process runs.

/// By name, `<stage>/<case>`.
const STABLE: [&str; 17] = [
    "prefetch/ring-simulated",
    "normalize/fill-shuffled",
    "normalize/fill-reference-last",
    "normalize/fill-reference-column",
    "normalize/fit-apply",
    "trainer/steps",
    "predictor/forecasts",
    "predictor/forecasts-small-model",
    "line/train",
    "loader/postgres",
    "loader/postgres-psql",
    "loader/postgres-cpu-psql",
    "loader/postgres-shuffled",
    "loader/postgres-cpu-shuffled",
    "loader/postgres-memory",
    "loader/postgres-memory-shuffled",
    "loader/postgres-memory-one-connection",
];

/// Whether a difference in a case's ratio means something.
pub(super) fn is_stable(name: &str) -> bool {
    STABLE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_stages::report::{Case, Report};
    use crate::workspace::Workspace;

    #[test]
    fn every_stable_case_is_one_that_is_measured() {
        let path = Workspace::find().unwrap().root().join("bench/stages.json");
        let measured: Vec<String> =
            Report::read(&path).unwrap().cases.iter().map(Case::name).collect();
        for name in STABLE {
            assert!(measured.iter().any(|case| case == name), "{name} is not in {measured:?}");
        }
    }
}
