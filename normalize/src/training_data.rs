//! [`TrainingData`]: a panel in, iterators over filled batches out, for programs that want the data
//! and bring the rest themselves.
//!
//! Splitting, fitting, scaling and filling are the stage's; what is missing is the line around it:
//! a batch is filled when it is asked for, not ahead. To have batches filled while others are
//! trained on, put [`Normalize`](crate::Normalize) into a line.

use crate::{
    batch_maker::BatchMaker, error::NormalizeError, fit::FitSettings, prepare::Prepared,
    purpose::TrainPurpose, settings::SplitSettings, stage::NormalizeSettings,
};
use millstream_data::{BatchSlot, Panel, Phase, Plan, Tag};
use std::{num::NonZeroUsize, sync::Arc};

/// What becomes of a panel. Fields may be added: fill up with `..Default::default()`.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingSettings {
    /// What to forecast, from what, and how it is scaled.
    pub fit: FitSettings,
    /// How the data is divided.
    pub split: SplitSettings,
    /// Windows in a full batch.
    pub batch_size: NonZeroUsize,
    /// Chooses the order of the training windows, with the epoch.
    pub seed: u64,
}

impl Default for TrainingSettings {
    fn default() -> Self {
        TrainingSettings {
            fit: FitSettings::default(),
            split: SplitSettings::default(),
            batch_size: NonZeroUsize::new(256).expect("a constant above zero"),
            seed: 0,
        }
    }
}

/// A panel that is split, fitted and scaled, and gives its batches on demand.
///
/// Work runs on the rayon pool it is called in. Slots are used again as soon as nobody holds their
/// batch any more: as many are made as batches are held at once, and no more.
pub struct TrainingData {
    maker: BatchMaker,
    slots: Vec<Arc<BatchSlot>>,
}

impl TrainingData {
    /// Splits the panel, fits the scalers on its training rows alone, and scales every row once. The
    /// panel is not needed any more afterwards.
    ///
    /// # Errors
    /// When a setting names what the panel does not have or asks for what cannot be, or there is no
    /// training window.
    pub fn new(panel: &Panel, settings: &TrainingSettings) -> Result<Self, NormalizeError> {
        let TrainingSettings { fit, split, batch_size, seed } = settings.clone();
        // How many epochs there are is up to who asks for them.
        let purpose = TrainPurpose { split, epochs: u32::MAX, seed, resume: None }.into();
        let settings = NormalizeSettings { fit, batch_size, purpose, ..Default::default() };
        let prepared = Prepared::new(panel, &settings, &|| false)?;
        let prepared = prepared.expect("nobody calls it off");
        Ok(TrainingData { maker: BatchMaker::new(prepared), slots: Vec::new() })
    }

    /// What was found and fitted: columns, scaling, how many windows each part has, and what the
    /// user should know ([`Plan::warnings`]).
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        self.maker.plan()
    }

    /// The training batches of an epoch, in its order. Epochs count from 1; asked for again, an epoch
    /// gives the same batches.
    pub fn train(&mut self, epoch: u32) -> BatchIter<'_> {
        self.pass(Phase::Train, epoch)
    }

    /// The batches to validate with, by series, then time.
    pub fn validation(&mut self) -> BatchIter<'_> {
        self.pass(Phase::Validation, 0)
    }

    /// The batches to test with, by series, then time.
    pub fn test(&mut self) -> BatchIter<'_> {
        self.pass(Phase::Test, 0)
    }

    fn pass(&mut self, phase: Phase, epoch: u32) -> BatchIter<'_> {
        let end = self.plan().batches(phase);
        BatchIter { data: self, next: Tag { epoch, phase, index: 0 }, end }
    }

    fn make(&mut self, tag: Tag) -> Arc<BatchSlot> {
        let free = self.slots.iter_mut().position(|slot| Arc::get_mut(slot).is_some());
        let free = free.unwrap_or_else(|| {
            self.slots.push(Arc::new(BatchSlot::on_heap(self.maker.layout())));
            self.slots.len() - 1
        });
        let slot = Arc::get_mut(&mut self.slots[free]).expect("just found to be held by nobody");
        self.maker.make(tag, slot);
        Arc::clone(&self.slots[free])
    }
}

impl std::fmt::Debug for TrainingData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainingData").field("plan", self.plan()).finish_non_exhaustive()
    }
}

/// The batches of one pass, each filled when its turn comes. Batches that are skipped are not filled.
#[derive(Debug)]
pub struct BatchIter<'a> {
    data: &'a mut TrainingData,
    next: Tag,
    end: u64,
}

impl Iterator for BatchIter<'_> {
    type Item = Arc<BatchSlot>;

    fn next(&mut self) -> Option<Arc<BatchSlot>> {
        self.nth(0)
    }

    fn nth(&mut self, skipped: usize) -> Option<Arc<BatchSlot>> {
        let index = self.next.index.saturating_add(skipped as u64).min(self.end);
        let tag = Tag { index, ..self.next };
        self.next.index = (index + 1).min(self.end);
        (index < self.end).then(|| self.data.make(tag))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next.index) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for BatchIter<'_> {}
