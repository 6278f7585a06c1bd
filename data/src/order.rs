//! The order in which batches come, as a pure function of the plan: written here and nowhere else.
//!
//! Of a stream to learn from: validation once (epoch 0), then each epoch's training and validation
//! batches, then the test batches; any pass but training may be empty. Of a stream to forecast: the
//! validation batches where its intervals are calibrated by them, then its batches. normalize makes batches in this order, and the trainer holds every one against it, so a
//! stream that starts at the wrong place after a resume is noticed at once.
//!
//! Whoever learns may end training early: the test batches then come next.

use crate::plan::{Phase, Plan, Tag};
use std::fmt;

impl Plan {
    /// The first batch of the stream; `None` where it holds none.
    #[must_use]
    pub fn first(&self) -> Option<Tag> {
        let holds_some =
            [Phase::Train, Phase::Predict].iter().any(|phase| self.batches(*phase) > 0);
        self.open(holds_some.then_some((0, Phase::Validation)))
    }

    /// The batch a run goes on with when `index` training batches of `epoch` are done.
    #[must_use]
    pub fn resumed(&self, epoch: u32, index: u64) -> Option<Tag> {
        if epoch > self.epochs {
            return self.test();
        }
        if index < self.batches(Phase::Train) {
            return Some(Tag { epoch, phase: Phase::Train, index });
        }
        self.open(self.next_pass(epoch, Phase::Train))
    }

    /// The batch after this one.
    #[must_use]
    pub fn after(&self, tag: Tag) -> Option<Tag> {
        if self.is_last(tag) {
            return self.open(self.next_pass(tag.epoch, tag.phase));
        }
        Some(Tag { index: tag.index + 1, ..tag })
    }

    /// The first test batch.
    #[must_use]
    pub fn test(&self) -> Option<Tag> {
        self.open(Some((self.epochs, Phase::Test)))
    }

    /// Ends the training of everybody who has this very plan: only the test batches are still wanted.
    pub fn end_training(&self) {
        self.early_end.announce();
    }

    /// The batch to make where it would be this one's turn: the first test batch instead, once training
    /// has ended early.
    #[must_use]
    pub fn still_wanted(&self, next: Option<Tag>) -> Option<Tag> {
        match next?.phase {
            Phase::Train | Phase::Validation if self.early_end.has_come() => self.test(),
            _ => next,
        }
    }

    /// Whether an epoch is over after this batch.
    #[must_use]
    pub fn ends_epoch(&self, tag: Tag) -> bool {
        let last_phase = match self.batches(Phase::Validation) {
            0 => Phase::Train,
            _ => Phase::Validation,
        };
        tag.phase == last_phase && self.is_last(tag)
    }

    /// The first batch of this pass, or of the first one after it that is not empty.
    fn open(&self, mut pass: Option<(u32, Phase)>) -> Option<Tag> {
        while let Some((epoch, phase)) = pass {
            if self.batches(phase) > 0 {
                return Some(Tag { epoch, phase, index: 0 });
            }
            pass = self.next_pass(epoch, phase);
        }
        None
    }

    fn next_pass(&self, epoch: u32, phase: Phase) -> Option<(u32, Phase)> {
        match phase {
            Phase::Train => Some((epoch, Phase::Validation)),
            Phase::Validation if epoch < self.epochs => Some((epoch + 1, Phase::Train)),
            Phase::Validation => Some((epoch, Phase::Test)),
            Phase::Test => Some((epoch, Phase::Predict)),
            Phase::Predict => None,
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tag { epoch, phase, index } = self;
        let phase = match phase {
            Phase::Train => "train",
            Phase::Validation => "validation",
            Phase::Test => "test",
            Phase::Predict => "predict",
        };
        write!(f, "batch {index} of the {phase} pass of epoch {epoch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BatchCounts;
    use Phase::{Predict, Test, Train, Validation};

    /// A plan with so many batches of training, validation, test and forecasts.
    fn plan(epochs: u32, [train, validation, test, predict]: [u64; 4]) -> Plan {
        let mut plan = Plan::unscaled(&["x"], &["x"], 1, 4);
        plan.epochs = epochs;
        plan.batches = BatchCounts { train, validation, test, predict };
        plan
    }

    fn walk(plan: &Plan, from: Option<Tag>) -> Vec<(u32, Phase, u64)> {
        std::iter::successors(from, |tag| plan.after(*tag))
            .map(|tag| (tag.epoch, tag.phase, tag.index))
            .collect()
    }

    #[test]
    fn a_run_is_validation_then_epochs_then_test() {
        let plan = plan(2, [2, 1, 1, 0]);
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
        assert_eq!(walk(&plan, plan.first()), expected);
        assert_eq!(walk(&plan, plan.resumed(1, 1)), expected[2..]);
        assert_eq!(walk(&plan, plan.resumed(1, 2)), expected[3..]);
        assert_eq!(walk(&plan, plan.resumed(3, 0)), expected[7..]);
    }

    #[test]
    fn empty_passes_are_skipped() {
        let plan = plan(2, [1, 0, 0, 0]);
        assert_eq!(walk(&plan, plan.first()), [(1, Train, 0), (2, Train, 0)]);
        assert_eq!(walk(&plan, plan.resumed(3, 0)), []);
        assert!(plan.ends_epoch(Tag { epoch: 1, phase: Train, index: 0 }));
    }

    #[test]
    fn when_training_ends_early_the_test_comes_next() {
        let whole = plan(9, [2, 1, 2, 0]);
        let ended = whole.clone();
        ended.end_training();
        let rest = [(9, Test, 0), (9, Test, 1)];
        for from in [ended.first(), Some(Tag { epoch: 3, phase: Train, index: 1 }), ended.test()] {
            assert_eq!(whole.still_wanted(from), from, "a clone is another stream");
            assert_eq!(walk(&ended, ended.still_wanted(from)), rest);
        }
        let last = Some(Tag { epoch: 9, phase: Test, index: 1 });
        assert_eq!(ended.still_wanted(last), last, "it does not begin again");
        let without = plan(9, [2, 1, 0, 0]);
        without.end_training();
        assert_eq!(without.still_wanted(without.first()), None);
    }

    #[test]
    fn a_stream_to_forecast_is_its_batches() {
        let plan = plan(0, [0, 0, 0, 2]);
        assert_eq!(walk(&plan, plan.first()), [(0, Predict, 0), (0, Predict, 1)]);
        let calibrated = self::plan(0, [0, 2, 0, 1]);
        let expected = [(0, Validation, 0), (0, Validation, 1), (0, Predict, 0)];
        assert_eq!(walk(&calibrated, calibrated.first()), expected);
        let tag = plan.first().unwrap().to_string();
        assert_eq!(tag, "batch 0 of the predict pass of epoch 0");
    }
}
