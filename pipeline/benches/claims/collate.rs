//! Making a padded batch of windows of different lengths: a list of tensors, padded and stacked,
//! or copies to where they belong in memory that is there.

use crate::{
    finding::Finding,
    harness::Failure,
    turns::Turns,
    workload::{self, BATCH, FEATURES, Size, Windows, threads},
};
use millstream_data::BatchSlot;
use millstream_normalize::{Batches, Filler, PadSide, ShortSeries, Window};
use millstream_stage::thread_pool;
use rayon::ThreadPool;
use std::hint::black_box;
use tch::{Device, Kind, Tensor};

/// So few rows that half of the windows are short of what they could have.
const ROWS: usize = 120;

/// Batches that make a figure.
const BATCHES: usize = 20;

const NAMES: [&str; 5] = [
    "list, padded and stacked",
    "pad_sequence",
    "copies into one tensor",
    "ours, one thread",
    "ours, two threads",
];

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let panel = workload::panel(size.series * size.rows / ROWS, ROWS)?;
    let mut settings = workload::settings();
    (settings.window.short, settings.window.pad) = (ShortSeries::Pad, PadSide::Right);
    let windows = Windows::new(&panel, &workload::learn_from_all(), &settings)?;
    drop(panel);
    let batches = windows.epoch()?;
    let torch = Torch::new(&windows, &batches);
    let mut ours = Ours::new(&windows, &batches);

    let expected = ours.values(0);
    for way in [Torch::list, Torch::pad_sequence, Torch::copies] {
        let got: Vec<f32> = way(&torch, 0).contiguous().view(-1).try_into()?;
        if got != expected {
            return Err("the ways collate differently".into());
        }
    }
    let turns = Turns::take(&NAMES, size.rounds, |way| {
        for batch in 0..BATCHES {
            match way {
                0 => drop(black_box(torch.list(batch))),
                1 => drop(black_box(torch.pad_sequence(batch))),
                2 => drop(black_box(torch.copies(batch))),
                _ => ours.fill(way - 3, batch),
            }
        }
        Ok(())
    })?;
    let ms = |way: usize| turns.median(way) / BATCHES as f64 * 1e3;
    Ok(Finding {
        measured: Some(turns.gain(0, 3).median),
        losses: None,
        how: format!(
            "{BATCH} windows of 1 to {} rows, 1 thread: tensors padded one by one and stacked \
             {:.1} ms a batch, our fill into a slot {:.1} ms (2 threads {:.1} ms), which makes \
             labels, lengths and mask too; in libtorch, pad_sequence takes {:.1} ms, and copies \
             into one reused tensor {:.1} ms; same values from all",
            windows.schema.lookback,
            ms(0),
            ms(3),
            ms(4),
            ms(1),
            ms(2)
        ),
        reason: None,
    })
}

/// Collating in libtorch.
struct Torch {
    /// All rows, scaled.
    data: Tensor,
    /// What each batch holds, looked up beforehand.
    batches: Vec<Vec<Window>>,
    /// Large enough for any batch.
    room: Tensor,
}

impl Torch {
    fn new(windows: &Windows, batches: &Batches) -> Self {
        let all = windows.rows.inputs(0, windows.rows.times().len());
        let window = |place| windows.train.at(batches.position(place));
        let batch = |batch: usize| batches.places(batch as u64).map(window).collect();
        let (lookback, features) = (windows.schema.lookback as i64, FEATURES as i64);
        Torch {
            data: Tensor::from_slice(all).view([-1, features]),
            batches: (0..BATCHES).map(batch).collect(),
            room: Tensor::zeros([BATCH as i64, lookback, features], (Kind::Float, Device::Cpu)),
        }
    }

    /// The rows of each window, without a copy.
    fn windows(&self, batch: usize) -> Vec<Tensor> {
        let view = |window: &Window| self.data.narrow(0, window.first as i64, window.rows() as i64);
        self.batches[batch].iter().map(view).collect()
    }

    fn longest(&self, batch: usize) -> i64 {
        self.batches[batch].iter().map(|window| window.rows() as i64).max().unwrap_or(0)
    }

    /// What people write first.
    fn list(&self, batch: usize) -> Tensor {
        let longest = self.longest(batch);
        let padded: Vec<Tensor> = self
            .windows(batch)
            .into_iter()
            .map(|window| {
                let missing = [longest - window.size()[0], FEATURES as i64];
                Tensor::cat(&[&window, &Tensor::zeros(missing, (Kind::Float, Device::Cpu))], 0)
            })
            .collect();
        Tensor::stack(&padded, 0)
    }

    /// What libtorch has for it.
    fn pad_sequence(&self, batch: usize) -> Tensor {
        Tensor::pad_sequence(&self.windows(batch), true, 0.0, "right")
    }

    /// What the guides advise.
    fn copies(&self, batch: usize) -> Tensor {
        let mut out = self.room.narrow(1, 0, self.longest(batch));
        let _ = out.zero_();
        for (at, window) in self.windows(batch).into_iter().enumerate() {
            out.select(0, at as i64).narrow(0, 0, window.size()[0]).copy_(&window);
        }
        out
    }
}

/// Collating in a slot.
struct Ours<'a> {
    windows: &'a Windows,
    batches: &'a Batches,
    filler: Filler,
    slot: BatchSlot,
    /// Of one thread and of two.
    pools: [ThreadPool; 2],
}

impl<'a> Ours<'a> {
    fn new(windows: &'a Windows, batches: &'a Batches) -> Self {
        let filler = windows.filler();
        let slot = BatchSlot::on_heap(filler.layout());
        let pools = [1, 2].map(|count| thread_pool("collate", threads(count)));
        Ours { windows, batches, filler, slot, pools }
    }

    fn fill(&mut self, pool: usize, batch: usize) {
        let Ours { windows, batches, filler, slot, pools } = self;
        pools[pool]
            .install(|| filler.fill(slot, &windows.rows, &windows.train, batches, batch as u64));
    }

    /// The inputs of a batch.
    fn values(&mut self, batch: usize) -> Vec<f32> {
        self.fill(0, batch);
        self.slot.values()[..BATCH * self.slot.meta.lookback * FEATURES].to_vec()
    }
}
