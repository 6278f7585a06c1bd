//! The normalize stage: a panel in, every epoch's batches out.

use crate::{
    batch_maker::BatchMaker, batches::Rank, error::NormalizeError, fit::FitSettings, limit::Limit,
    prepare::Prepared, settings::SplitSettings, split::Span, training_data::TrainingSettings,
};
use millstream_data::{BatchLayout, BatchSlot, DataSchema, Panel, Scaling};
use millstream_stage::{Emit, Flow, Lease, Pool, Stage, thread_pool_here};
use std::{error::Error, num::NonZeroUsize};

/// What the stage makes of a panel. Fields may be added: fill up with `..Default::default()`.
#[derive(Debug, Clone)]
pub struct NormalizeSettings {
    /// What to forecast, from what, and how it is scaled.
    pub fit: FitSettings,
    /// Windows in a full batch of all ranks together.
    pub batch_size: NonZeroUsize,
    /// Which slice of every batch is this process's.
    pub rank: Rank,
    /// Threads of this stage's pool.
    pub threads: NonZeroUsize,
    /// What the batches are for.
    pub purpose: Purpose,
    /// How much of each pass there is; all of it by default.
    pub limit: Limit,
}

impl Default for NormalizeSettings {
    fn default() -> Self {
        let TrainingSettings { fit, split, batch_size, seed } = TrainingSettings::default();
        let purpose = Purpose::Train { split, epochs: 1, seed, resume: None };
        let threads = NonZeroUsize::MIN;
        let (rank, limit) = (Rank::ALONE, Limit::None);
        NormalizeSettings { fit, batch_size, rank, threads, purpose, limit }
    }
}

/// What the batches are for.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// Split, fit, then stream: validation once before the first step, each epoch's training and
    /// validation batches, and the test batches at the end.
    Train {
        /// How the data is divided.
        split: SplitSettings,
        /// Passes over the training windows.
        epochs: u32,
        /// Chooses the order of the training windows.
        seed: u64,
        /// Where to begin; `None` for the beginning.
        resume: Option<Resume>,
    },
    /// Scale as a model was trained, then stream the windows to forecast. Of the settings, only the
    /// stride counts; all else is the model's.
    Predict {
        /// The model's data contract.
        schema: Box<DataSchema>,
        /// The model's scaling.
        scaling: Scaling,
        /// Which times.
        times: ForecastTimes,
        /// Only these series, by name; empty for all. A cross-section is over all series of the
        /// panel, whichever are forecast.
        series: Vec<String>,
    },
}

/// When the forecasts are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForecastTimes {
    /// In the model's test part: its windows, and those after it whose outcome is still to come.
    TestPart,
    /// At these times: those of the windows' last rows.
    MadeIn(Span),
}

/// Where a stream that was interrupted goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The epoch, from 1.
    pub epoch: u32,
    /// The next training batch of that epoch.
    pub batch: u64,
}

/// Makes the batch slots once the layout is known; prefetch does, for the device it feeds.
pub type MakeSlots =
    Box<dyn FnOnce(BatchLayout) -> Result<Pool<BatchSlot>, Box<dyn Error + Send + Sync>> + Send>;

/// The stage.
pub struct Normalize {
    settings: NormalizeSettings,
    make_slots: Option<MakeSlots>,
}

impl Normalize {
    /// A stage that fills the slots `make_slots` makes.
    #[must_use]
    pub fn new(settings: NormalizeSettings, make_slots: MakeSlots) -> Self {
        Normalize { settings, make_slots: Some(make_slots) }
    }
}

impl std::fmt::Debug for Normalize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Normalize").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Stage for Normalize {
    type In = Panel;
    type Out = Lease<BatchSlot>;
    type Error = NormalizeError;

    fn process(
        &mut self,
        panel: Panel,
        emit: &mut Emit<'_, Lease<BatchSlot>>,
    ) -> Result<Flow, NormalizeError> {
        // This thread fills too, while it has nothing to send.
        let pool = thread_pool_here("normalize", self.settings.threads)?;
        let next = emit.next();
        let prepared =
            pool.install(|| Prepared::new(&panel, &self.settings, &|| next.is_gone()))?;
        let Some(prepared) = prepared else { return Ok(Flow::Stop) };
        // The scaled copy is all that is needed from here on; a memory-mapped panel gives its
        // pages back.
        drop(panel);
        let make_slots = self.make_slots.take().expect("a line loads one panel");
        // Slots first: whoever makes them knows whether there is room for batches of this size.
        let slots = make_slots(prepared.layout()).map_err(NormalizeError::Slots)?;
        let mut maker = BatchMaker::new(prepared);
        let mut next = maker.first();
        while let Some(tag) = next {
            let Some(mut slot) = emit.take(&slots) else { return Ok(Flow::Stop) };
            tracing::trace_span!("fill").in_scope(|| pool.install(|| maker.make(tag, &mut slot)));
            if emit.send(slot) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            let plan = maker.plan();
            next = plan.still_wanted(plan.after(tag));
        }
        Ok(Flow::Continue)
    }
}
