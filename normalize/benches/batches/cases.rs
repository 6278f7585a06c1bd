//! The cases: ours beside its floors.

use crate::{
    fill::Kind,
    harness::{
        report::{Case, Comparison},
        rounds::{Method as _, Outcome},
    },
    method::{Method, Work},
    passes::Pages,
};

const STAGE: &str = "normalize";

/// Name of the case, ours, its floor.
const COMPARISONS: [(&str, Method, Method); 6] = [
    ("fill-shuffled", Method::Fill(Kind::Plain), Method::Copy(Kind::Plain)),
    ("fill-shuffled-one-thread-floor", Method::Fill(Kind::Plain), Method::CopySequentially),
    ("fill-reference-last", Method::Fill(Kind::Last), Method::Copy(Kind::Last)),
    ("fill-reference-column", Method::Fill(Kind::Close), Method::Copy(Kind::Close)),
    ("fit-apply", Method::Prepare, Method::Passes(Pages::Large)),
    ("fit-apply-ordinary-pages-floor", Method::Prepare, Method::Passes(Pages::Ordinary)),
];

/// Every method that some comparison needs, once; what is compared takes turns.
pub(crate) fn methods() -> Vec<Method> {
    let mut methods = Vec::new();
    for method in COMPARISONS.iter().flat_map(|(_, ours, floor)| [*ours, *floor]) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    methods
}

/// The cases of all comparisons.
pub(crate) fn compare(outcomes: &[Outcome<Method, ()>], work: &Work) -> Vec<Case> {
    let find = |method: Method| outcomes.iter().find(|outcome| outcome.method == method);
    let mut cases = Vec::new();
    for (name, ours, floor) in COMPARISONS {
        let (Some(ours), Some(floor)) = (find(ours), find(floor)) else { continue };
        let described = floor.method.describe();
        let other_name = described.strip_prefix("floor: ").unwrap_or(&described);
        cases.extend(pair(name, ours, floor, other_name, work));
    }
    cases
}

/// Ours beside a floor or a peer, as bytes of windows or of the panel per second.
pub(crate) fn pair(
    name: &str,
    ours: &Outcome<Method, ()>,
    other: &Outcome<Method, ()>,
    other_name: &str,
    work: &Work,
) -> Option<Case> {
    let bytes = match ours.method {
        Method::Prepare => work.panel_bytes(),
        _ => work.filled_bytes(),
    };
    let comparison = Comparison { stage: STAGE, ours, other, other_name, amount: bytes as f64 };
    comparison.case(name.to_owned(), "bytes/s", Outcome::wall_s)
}
