//! Which cases repeat: run twice at one commit on an idle machine, their ratios agree.
//!
//! A case is stable when ours and its floor are limited by the same thing (the memory, the
//! arithmetic, the server, a clock), so that what disturbs one disturbs the other. The rest is
//! measured and shown, but a difference of a few percent between two of its figures proves
//! nothing:
//!
//! - `loader/parquet` sets decoding beside reading, a processor beside the memory;
//! - `normalize/fit-apply-ordinary-pages-floor` is about how the kernel comes by pages;
//! - `loader/postgres-one-connection` depends on where the server's one process runs;
//! - `loader/postgres-psql` and `loader/postgres-cpu-psql` set us beside another program, which
//!   waits in its own way.

/// By name, `<stage>/<case>`.
const STABLE: [&str; 31] = [
    "stage/hand-over",
    "prefetch/ring-simulated",
    "normalize/fill-shuffled",
    "normalize/fill-shuffled-one-thread-floor",
    "normalize/fill-reference-last",
    "normalize/fill-reference-column",
    "normalize/fit-apply",
    "trainer/steps",
    "trainer/steps-small-model",
    "trainer/steps-gru",
    "trainer/steps-transformer",
    "trainer/steps-nlinear",
    "trainer/steps-dlinear",
    "trainer/steps-mlp",
    "predictor/forecasts",
    "predictor/forecasts-small-model",
    "line/train",
    "loader/cached",
    "loader/parquet-decoded",
    "loader/postgres",
    "loader/postgres-cpu",
    "loader/postgres-memory",
    "loader/postgres-shuffled",
    "loader/postgres-cpu-shuffled",
    "loader/postgres-memory-shuffled",
    "loader/postgres-cpu-one-connection",
    "loader/postgres-memory-one-connection",
    "loader/postgres-batches-wide",
    "loader/postgres-cpu-batches-wide",
    "loader/postgres-batches-packed",
    "loader/postgres-cpu-batches-packed",
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
    fn four_in_five_of_the_cases_that_are_measured_are_stable() {
        let path = Workspace::find().unwrap().root().join("bench/stages.json");
        let measured: Vec<String> =
            Report::read(&path).unwrap().cases.iter().map(Case::name).collect();
        for name in STABLE {
            assert!(measured.iter().any(|case| case == name), "{name} is not in {measured:?}");
        }
        assert!(STABLE.len() * 5 >= measured.len() * 4, "of {} cases", measured.len());
    }
}
