//! The cases: the predictor beside its model, for each kind of work.

use crate::{
    harness::{
        report::{Case, Comparison},
        rounds::{self, Outcome},
    },
    workload::{Kind, Work},
};

/// One way to forecast one kind of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) who: Who,
    pub(crate) kind: Kind,
}

/// Who forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Floor,
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let who = match self.who {
            Who::Ours => "ours: predictor to Parquet",
            Who::Floor => "floor: forward only",
        };
        format!("{who}, {}", self.kind.describe())
    }

    fn is_peer(self) -> bool {
        false
    }
}

pub(crate) fn methods() -> Vec<Method> {
    let pair = |kind| [Who::Ours, Who::Floor].map(|who| Method { who, kind });
    Kind::ALL.into_iter().flat_map(pair).collect()
}

/// Windows per second of both.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &[Work]) -> Vec<Case> {
    let case = |work: &Work| {
        let kind = work.kind;
        let find = |who| outcomes.iter().find(|outcome| outcome.method == Method { who, kind });
        let comparison = Comparison {
            stage: "predictor",
            ours: find(Who::Ours)?,
            other: find(Who::Floor)?,
            other_name: "the same network in bare libtorch, forward only",
            amount: work.windows() as f64,
        };
        comparison.case(kind.case().to_owned(), "windows/s", Outcome::wall_s)
    };
    work.iter().filter_map(case).collect()
}
