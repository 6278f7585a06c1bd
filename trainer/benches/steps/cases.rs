//! The cases: the trainer beside the bare loop, for each kind of work.

use crate::{
    harness::{
        report::{Case, Comparison},
        rounds::{self, Outcome},
    },
    workload::{Kind, Work},
};

/// One way to learn one kind of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    pub(crate) who: Who,
    pub(crate) kind: Kind,
}

/// Who learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Ours,
    Floor,
    /// A plain PyTorch loop, by its name in `peers.py`.
    Peer(&'static str),
}

impl rounds::Method for Method {
    fn describe(self) -> String {
        let who = match self.who {
            Who::Ours => "ours: trainer",
            Who::Floor => "floor: bare libtorch loop",
            Who::Peer(name) => name,
        };
        format!("{who}, {}", self.kind.describe())
    }

    fn is_peer(self) -> bool {
        matches!(self.who, Who::Peer(_))
    }
}

pub(crate) fn methods() -> Vec<Method> {
    let pair = |kind| [Who::Ours, Who::Floor].map(|who| Method { who, kind });
    Kind::ALL.into_iter().flat_map(pair).collect()
}

/// Windows per second of both, for each kind of work.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &[Work]) -> Vec<Case> {
    let case = |work: &Work| {
        let kind = work.kind;
        let find = |who| outcomes.iter().find(|outcome| outcome.method == Method { who, kind });
        pair(kind.case(), find(Who::Ours)?, find(Who::Floor)?, "bare libtorch loop", work)
    };
    work.iter().filter_map(case).collect()
}

/// Windows per second of ours beside another.
pub(crate) fn pair(
    case: &str,
    ours: &Outcome<Method, ()>,
    other: &Outcome<Method, ()>,
    other_name: &str,
    work: &Work,
) -> Option<Case> {
    let amount = work.timed_windows() as f64;
    let comparison = Comparison { stage: "trainer", ours, other, other_name, amount };
    comparison.case(case.to_owned(), "windows/s", Outcome::wall_s)
}
