//! The order in which batches come, as a pure function of the plan.
//!
//! Validation once (epoch 0), then each epoch's training and validation batches, then the test
//! batches. Any pass but training may be empty. The trainer holds every batch against this order,
//! so a stream that starts at the wrong place after a resume is noticed at once.

use millstream_data::{Phase, Plan, Tag};

/// The first batch of a new run.
pub(crate) fn first(plan: &Plan) -> Option<Tag> {
    open(plan, Some((0, Phase::Validation)))
}

/// The batch a run goes on with when `index` training batches of `epoch` are done.
pub(crate) fn resumed(plan: &Plan, epoch: u32, index: u64) -> Option<Tag> {
    if epoch > plan.epochs {
        return open(plan, Some((plan.epochs, Phase::Test)));
    }
    if index < plan.batches(Phase::Train) {
        return Some(Tag { epoch, phase: Phase::Train, index });
    }
    open(plan, next_pass(plan, epoch, Phase::Train))
}

/// The batch after this one.
pub(crate) fn after(plan: &Plan, tag: Tag) -> Option<Tag> {
    if plan.is_last(tag) {
        return open(plan, next_pass(plan, tag.epoch, tag.phase));
    }
    Some(Tag { index: tag.index + 1, ..tag })
}

/// Whether an epoch is over after this batch.
pub(crate) fn ends_epoch(plan: &Plan, tag: Tag) -> bool {
    let last_phase = match plan.batches(Phase::Validation) {
        0 => Phase::Train,
        _ => Phase::Validation,
    };
    tag.phase == last_phase && plan.is_last(tag)
}

/// A tag as an error message names it.
pub(crate) fn describe(tag: Option<Tag>) -> String {
    match tag {
        Some(Tag { epoch, phase, index }) => {
            format!("batch {index} of the {phase:?} pass of epoch {epoch}").to_lowercase()
        }
        None => "the end of the stream".into(),
    }
}

/// The first batch of this pass, or of the first one after it that is not empty.
fn open(plan: &Plan, mut pass: Option<(u32, Phase)>) -> Option<Tag> {
    while let Some((epoch, phase)) = pass {
        if plan.batches(phase) > 0 {
            return Some(Tag { epoch, phase, index: 0 });
        }
        pass = next_pass(plan, epoch, phase);
    }
    None
}

fn next_pass(plan: &Plan, epoch: u32, phase: Phase) -> Option<(u32, Phase)> {
    match phase {
        Phase::Train => Some((epoch, Phase::Validation)),
        Phase::Validation if epoch < plan.epochs => Some((epoch + 1, Phase::Train)),
        Phase::Validation => Some((epoch, Phase::Test)),
        Phase::Test | Phase::Predict => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::plan;

    fn walk(plan: &Plan, from: Option<Tag>) -> Vec<(u32, Phase, u64)> {
        std::iter::successors(from, |tag| after(plan, *tag))
            .map(|tag| (tag.epoch, tag.phase, tag.index))
            .collect()
    }

    #[test]
    fn a_run_is_validation_then_epochs_then_test() {
        use Phase::{Test, Train, Validation};
        let plan = plan(2, [8, 3, 4]);
        let expected = [
            (0, Validation, 0),
            (1, Train, 0),
            (1, Train, 1),
            (1, Validation, 0),
            (2, Train, 0),
            (2, Train, 1),
            (2, Validation, 0),
            (2, Test, 0),
        ];
        assert_eq!(walk(&plan, first(&plan)), expected);
        assert_eq!(walk(&plan, resumed(&plan, 1, 1)), expected[2..]);
        assert_eq!(walk(&plan, resumed(&plan, 1, 2)), expected[3..]);
        assert_eq!(walk(&plan, resumed(&plan, 3, 0)), expected[7..]);
    }

    #[test]
    fn empty_passes_are_skipped() {
        let plan = plan(2, [4, 0, 0]);
        let expected = [(1, Phase::Train, 0), (2, Phase::Train, 0)];
        assert_eq!(walk(&plan, first(&plan)), expected);
        assert_eq!(walk(&plan, resumed(&plan, 3, 0)), []);
        assert!(ends_epoch(&plan, Tag { epoch: 1, phase: Phase::Train, index: 0 }));
    }
}
