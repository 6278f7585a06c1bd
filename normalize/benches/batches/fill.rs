//! Filling shuffled batches: ours, with and without references.

use crate::{
    harness::Failure,
    workload::{self, BATCH, PRICES},
};
use millstream_data::{BatchSlot, Panel, Reference, Relative};
use millstream_normalize::{
    Batches, Filler, Fitted, Rank, ScaleGroup, ScaledRows, Split, TrainingOrder, WindowIndex,
    WindowOrder, WindowShape, fit,
};

/// As many as the ring has.
pub(crate) const SLOTS: usize = 3;

/// What windows are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: a batch is copies.
    Plain,
    /// Every column to its last value in the window.
    Last,
    /// Five prices to the last close, as a ratio.
    Close,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Plain, Kind::Last, Kind::Close];

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Kind::Plain => "no reference",
            Kind::Last => "all columns less their last value",
            Kind::Close => "five prices over the last close",
        }
    }
}

/// Everything that filling needs, made once.
pub(crate) struct Fill {
    pub(crate) rows: ScaledRows,
    /// First row of every window, in the order of the epoch: what the floors are told beforehand.
    pub(crate) spans: Vec<usize>,
    index: WindowIndex,
    batches: Batches,
    filler: Filler,
    /// Filled in turn, so that nobody copies into the one that is warm.
    slots: [BatchSlot; SLOTS],
    batch: u64,
}

impl Fill {
    pub(crate) fn new(panel: &Panel, split: &Split, kind: Kind) -> Result<Self, Failure> {
        let mut settings = workload::settings();
        match kind {
            Kind::Plain => {}
            Kind::Last => settings.scale.reference = Reference::Last,
            Kind::Close => settings.scale.groups.push(ScaleGroup {
                columns: PRICES.map(str::to_owned).to_vec(),
                reference: Some(Reference::Column("close".into())),
                relative: Some(Relative::Ratio),
                ..ScaleGroup::default()
            }),
        }
        let Fitted { schema, scaling, .. } = fit(panel, split.train(), &settings)?;
        let rows = ScaledRows::new(panel, &schema, &scaling)?;
        let shape = WindowShape::of(&schema, &settings.window);
        let index = WindowIndex::labelled(&rows, shape, split.train().part());
        let order =
            TrainingOrder { order: WindowOrder::Global, drop_last: true, seed: 42, epoch: 1 };
        let batches = Batches::training(&rows, &index, BATCH, Rank::ALONE, order)?;
        let places = 0..batches.len() * BATCH as u64;
        let spans = places.map(|place| index.at(batches.position(place)).first).collect();
        let filler = Filler::new(&rows, shape, schema.padding, BATCH);
        let slots = std::array::from_fn(|_| BatchSlot::on_heap(filler.layout()));
        Ok(Fill { rows, spans, index, batches, filler, slots, batch: 0 })
    }

    /// Bytes of a batch's inputs.
    pub(crate) fn batch_bytes(&self) -> u64 {
        let layout = self.filler.layout();
        (layout.batch_size * layout.window() * size_of::<f32>()) as u64
    }

    /// Fills the next batch.
    pub(crate) fn next(&mut self) {
        self.batch = (self.batch + 1) % self.batches.len();
        self.fill(self.batch as usize % SLOTS);
    }

    /// Fills the next batch in place of the one before.
    pub(crate) fn next_in_one_slot(&mut self) {
        self.batch = (self.batch + 1) % self.batches.len();
        self.fill(0);
    }

    fn fill(&mut self, slot: usize) {
        let Fill { rows, index, batches, filler, slots, batch, .. } = self;
        filler.fill(&mut slots[slot], rows, index, batches, *batch);
    }

    /// The next batch for a floor: its slot, and the first rows of its windows.
    pub(crate) fn next_spans(&mut self) -> (&ScaledRows, &mut BatchSlot, &[usize]) {
        self.batch = (self.batch + 1) % self.batches.len();
        let spans = &self.spans[self.batch as usize * BATCH..][..BATCH];
        (&self.rows, &mut self.slots[self.batch as usize % SLOTS], spans)
    }

    /// The first batches of the epoch.
    pub(crate) fn first(&mut self, batches: u64) -> Vec<f32> {
        let mut values = Vec::new();
        for batch in 0..batches {
            self.batch = batch;
            self.fill(0);
            values.extend_from_slice(self.slots[0].parts_mut().0.inputs);
        }
        values
    }
}
