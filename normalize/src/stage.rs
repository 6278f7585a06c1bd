//! The normalize stage: a panel in, every epoch's batches out.

use crate::{
    error::NormalizeError,
    fill::{Filler, Order},
    fit::fit,
    rows::Rows,
    settings::{ScaleSettings, SplitSettings, TargetSettings, WindowSettings},
    shuffle::Shuffle,
    split::Split,
    windows::{Shape, WindowIndex},
};
use millstream_stage::{
    BatchLayout, BatchSlot, ColumnScaling, DataSchema, Emit, Flow, Lease, Panel, Phase, Plan, Pool,
    Scaling, Stage, Tag, WindowCounts, thread_pool,
};
use rayon::ThreadPool;
use std::{error::Error, num::NonZeroUsize, sync::Arc};

/// What the stage makes of a panel.
#[derive(Debug, Clone)]
pub struct NormalizeSettings {
    /// What to forecast.
    pub target: TargetSettings,
    /// The shape of a window.
    pub window: WindowSettings,
    /// How values are scaled.
    pub scale: ScaleSettings,
    /// Windows in a full batch.
    pub batch_size: NonZeroUsize,
    /// Threads of this stage's pool.
    pub threads: NonZeroUsize,
    /// What the batches are for.
    pub purpose: Purpose,
}

/// What the batches are for.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// Split, fit, then stream: validation once before the first step, each epoch's training and
    /// validation batches, and the test batches at the end.
    Train {
        /// How time is divided.
        split: SplitSettings,
        /// Passes over the training windows.
        epochs: u32,
        /// Chooses the order of the training windows.
        seed: u64,
        /// Where to begin; `None` for the beginning.
        resume: Option<Resume>,
    },
    /// Scale as a model was trained, then stream every window that can be forecast.
    Predict {
        /// The model's data contract.
        schema: Box<DataSchema>,
        /// The model's scaling.
        scaling: Scaling,
        /// First time to forecast.
        from: i64,
    },
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
    pool: ThreadPool,
}

impl Normalize {
    /// A stage that fills the slots `make_slots` makes.
    #[must_use]
    pub fn new(settings: NormalizeSettings, make_slots: MakeSlots) -> Self {
        let pool = thread_pool("normalize", settings.threads);
        Normalize { settings, make_slots: Some(make_slots), pool }
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
        let prepared = self.pool.install(|| Prepared::new(&panel, &self.settings))?;
        // The scaled copy is all that is needed from here on; a memory-mapped panel gives its
        // pages back.
        drop(panel);
        let shape = prepared.shape;
        let mut filler = Filler::new(shape, self.settings.batch_size.get());
        let layout = filler.layout(&prepared.rows, self.settings.batch_size.get());
        let make_slots = self.make_slots.take().expect("a line loads one panel");
        let slots = make_slots(layout).map_err(NormalizeError::Slots)?;

        for pass in prepared.passes {
            let index = &prepared.indexes[pass.index];
            for batch in pass.first..prepared.plan.batches(pass.phase) {
                let Some(mut slot) = emit.take(&slots) else { return Ok(Flow::Stop) };
                tracing::trace_span!("fill").in_scope(|| {
                    self.pool.install(|| {
                        filler.fill(&mut slot, &prepared.rows, index, &pass.order, batch);
                    });
                });
                slot.meta.tag = Some(Tag { epoch: pass.epoch, phase: pass.phase, index: batch });
                slot.meta.plan = Some(Arc::clone(&prepared.plan));
                if emit.send(slot) == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        Ok(Flow::Continue)
    }
}

/// A panel made ready: scaled rows, the indexes of its parts, and the passes over them.
struct Prepared {
    rows: Rows,
    shape: Shape,
    plan: Arc<Plan>,
    indexes: Vec<WindowIndex>,
    passes: Vec<Pass>,
}

/// One pass over one part.
struct Pass {
    epoch: u32,
    phase: Phase,
    /// Position in `Prepared::indexes`.
    index: usize,
    order: Order,
    first: u64,
}

impl Pass {
    fn sorted(epoch: u32, phase: Phase, index: usize) -> Self {
        Pass { epoch, phase, index, order: Order::Sorted, first: 0 }
    }
}

impl Prepared {
    fn new(panel: &Panel, settings: &NormalizeSettings) -> Result<Self, NormalizeError> {
        if panel.row_count() == 0 {
            return Err(NormalizeError::EmptyPanel);
        }
        match &settings.purpose {
            Purpose::Train { split, epochs, seed, resume } => {
                let split = Split::new(panel, split)?;
                Prepared::to_train(panel, settings, &split, *epochs, *seed, *resume)
            }
            Purpose::Predict { schema, scaling, from } => {
                Prepared::to_predict(panel, settings, schema, scaling, *from)
            }
        }
    }

    fn to_train(
        panel: &Panel,
        settings: &NormalizeSettings,
        split: &Split,
        epochs: u32,
        seed: u64,
        resume: Option<Resume>,
    ) -> Result<Self, NormalizeError> {
        let fitted = fit(panel, &split.train(), settings.scale.method);
        let scaling = Scaling {
            method: settings.scale.method.to_string(),
            targets: pick(&fitted, &settings.target.columns)?,
            features: fitted.into_iter().take(panel.schema().inputs).collect(),
        };
        let rows = Rows::new(panel, &scaling.features, &scaling.targets)?;
        let shape = shape(&settings.window);
        let all =
            WindowIndex::labelled(&rows, shape, crate::Span { from: i64::MIN, until: i64::MAX });
        let parts = [split.train_span(), split.validation, split.test];
        let indexes = parts.map(|span| WindowIndex::labelled(&rows, shape, span));
        let [train, validation, test] = indexes.each_ref().map(WindowIndex::len);
        let missing_target = indexes.iter().map(WindowIndex::missing_target).sum();
        let windows = WindowCounts {
            train,
            validation,
            test,
            short_series: short_series(&rows, shape.lookback + shape.horizon),
            missing_target,
            across_border: (all.len() + all.missing_target())
                .saturating_sub(train + validation + test + missing_target),
        };
        if train == 0 {
            return Err(no_training_window(panel, &rows, shape, split, missing_target));
        }

        let plan = Plan {
            schema: data_schema(panel, &scaling, shape, split.test.from),
            scaling,
            panel: Arc::clone(panel.schema()),
            windows,
            batch_size: settings.batch_size.get(),
            epochs,
            drop_last: false,
            predict: 0,
        };
        let passes = training_passes(train, epochs, seed, resume);
        Ok(Prepared { rows, shape, plan: Arc::new(plan), indexes: indexes.into(), passes })
    }

    fn to_predict(
        panel: &Panel,
        settings: &NormalizeSettings,
        schema: &DataSchema,
        scaling: &Scaling,
        from: i64,
    ) -> Result<Self, NormalizeError> {
        let rows = Rows::new(panel, &scaling.features, &scaling.targets)?;
        let shape = shape(&settings.window);
        let index = WindowIndex::forecastable(&rows, shape, from);
        let windows = WindowCounts {
            short_series: short_series(&rows, shape.lookback),
            ..WindowCounts::default()
        };
        let plan = Plan {
            schema: schema.clone(),
            scaling: scaling.clone(),
            panel: Arc::clone(panel.schema()),
            windows,
            batch_size: settings.batch_size.get(),
            epochs: 0,
            drop_last: false,
            predict: index.len(),
        };
        let passes = vec![Pass::sorted(0, Phase::Predict, 0)];
        Ok(Prepared { rows, shape, plan: Arc::new(plan), indexes: vec![index], passes })
    }
}

/// The passes of a training run, over the indexes train, validation, test.
fn training_passes(train: u64, epochs: u32, seed: u64, resume: Option<Resume>) -> Vec<Pass> {
    let start = resume.unwrap_or(Resume { epoch: 1, batch: 0 });
    let mut passes = Vec::new();
    if resume.is_none() {
        passes.push(Pass::sorted(0, Phase::Validation, 1));
    }
    for epoch in start.epoch..=epochs {
        let order = Order::Shuffled(Shuffle::new(train, seed, epoch));
        let first = if epoch == start.epoch { start.batch } else { 0 };
        passes.push(Pass { epoch, phase: Phase::Train, index: 0, order, first });
        passes.push(Pass::sorted(epoch, Phase::Validation, 1));
    }
    passes.push(Pass::sorted(epochs, Phase::Test, 2));
    passes
}

fn shape(settings: &WindowSettings) -> Shape {
    Shape {
        lookback: settings.lookback.get(),
        horizon: settings.horizon.get(),
        stride: settings.stride.get(),
    }
}

fn pick(fitted: &[ColumnScaling], names: &[String]) -> Result<Vec<ColumnScaling>, NormalizeError> {
    if names.is_empty() {
        return Err(NormalizeError::NoTarget);
    }
    let find = |name: &String| fitted.iter().find(|column| column.name == *name).cloned();
    names
        .iter()
        .map(|name| {
            find(name).ok_or_else(|| NormalizeError::UnknownTarget {
                column: name.clone(),
                columns: fitted.iter().map(|column| column.name.clone()).collect(),
            })
        })
        .collect()
}

fn data_schema(panel: &Panel, scaling: &Scaling, shape: Shape, test_start: i64) -> DataSchema {
    let panel = panel.schema();
    let names = |columns: &[ColumnScaling]| columns.iter().map(|c| c.name.clone()).collect();
    DataSchema {
        series_column: panel.series_column.clone(),
        time_column: panel.time_column.clone(),
        time_kind: panel.time_kind,
        features: names(&scaling.features),
        targets: names(&scaling.targets),
        lookback: shape.lookback,
        horizon: shape.horizon,
        test_start,
        fingerprint: panel.fingerprint.clone(),
    }
}

fn short_series(rows: &Rows, needed: usize) -> u64 {
    rows.series().iter().filter(|series| series.end - series.start < needed).count() as u64
}

fn no_training_window(
    panel: &Panel,
    rows: &Rows,
    shape: Shape,
    split: &Split,
    missing_target: u64,
) -> NormalizeError {
    let (lookback, horizon) = (shape.lookback, shape.horizon);
    let longest = rows.series().iter().map(|s| s.end - s.start).max().unwrap_or(0);
    if longest < lookback + horizon {
        return NormalizeError::SeriesTooShort { lookback, horizon, longest };
    }
    NormalizeError::EmptyTrain {
        train_end: panel.schema().format_time(split.train().end()),
        needed: lookback + horizon,
        missing_target,
    }
}
