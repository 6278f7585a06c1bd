//! The normalize stage: a panel in, every epoch's batches out.

use crate::{
    batch_maker::BatchMaker, batches::Rank, error::NormalizeError, fit::FitSettings, limit::Limit,
    prepare::Prepared, purpose::Purpose, training_data::TrainingSettings,
};
use millstream_data::{BatchLayout, BatchSlot, Panel};
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
    /// Of a stream to learn from: whether a linear forecast is fitted on the training windows, for who
    /// judges ([`Plan::ridge`](millstream_data::Plan::ridge)); false by default.
    pub ridge: bool,
}

impl Default for NormalizeSettings {
    fn default() -> Self {
        let TrainingSettings { fit, batch_size, .. } = TrainingSettings::default();
        let purpose = Purpose::default();
        let threads = NonZeroUsize::MIN;
        let (rank, limit) = (Rank::ALONE, Limit::None);
        NormalizeSettings { fit, batch_size, rank, threads, purpose, limit, ridge: false }
    }
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
