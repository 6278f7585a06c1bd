//! The cases: loads beside reading the same bytes.

use crate::{
    harness::{
        report::{Case, Comparison},
        rounds::{self, Outcome},
    },
    workload::Work,
};

/// One way to get at the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Cached,
    CachedFloor,
    Parquet,
    ParquetFloor,
    ParquetBatches,
}

impl Method {
    pub(crate) const ALL: [Method; 5] = [
        Method::Cached,
        Method::CachedFloor,
        Method::Parquet,
        Method::ParquetFloor,
        Method::ParquetBatches,
    ];
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let text = match self {
            Method::Cached => "ours: the cached panel",
            Method::CachedFloor => "floor: sequential read of its files",
            Method::Parquet => "ours: a Parquet file, no cache",
            Method::ParquetFloor => "floor: sequential read of the Parquet file",
            Method::ParquetBatches => "floor: record batches of the Parquet file, dropped",
        };
        text.to_owned()
    }

    fn is_peer(self) -> bool {
        false
    }
}

/// Rows per second.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &Work) -> Vec<Case> {
    let case = |name: &str, ours, floor, floor_name| {
        let find = |method| outcomes.iter().find(|outcome| outcome.method == method);
        let comparison = Comparison {
            stage: "loader",
            ours: find(ours)?,
            other: find(floor)?,
            other_name: floor_name,
            amount: work.rows as f64,
        };
        comparison.case(name.to_owned(), "rows/s", Outcome::wall_s)
    };
    [
        case("cached", Method::Cached, Method::CachedFloor, "sequential read of its files"),
        case("parquet", Method::Parquet, Method::ParquetFloor, "sequential read of the same file"),
        case(
            "parquet-decoded",
            Method::Parquet,
            Method::ParquetBatches,
            "record batches of the same file, dropped",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}
