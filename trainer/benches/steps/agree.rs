//! Whether both learn the same: otherwise their times would not be about the same work.

use crate::{
    bare,
    harness::{Failure, sample::Sample},
    ours,
    workload::Work,
};
use millstream_stage::{Ending, Sink as _};
use std::{collections::BTreeMap, path::Path};
use tch::Tensor;

/// What an epoch took, and what it left.
pub(crate) struct Run {
    pub(crate) sample: Sample<()>,
    pub(crate) learned: Learned,
}

/// The mean loss of an epoch, and weights.
pub(crate) struct Learned {
    pub(crate) loss: f64,
    pub(crate) weights: Vec<(String, Tensor)>,
}

/// By how much the losses may differ, as a fraction.
const LOSS_TOLERANCE: f64 = 1e-4;

/// By how much a weight may differ, as a fraction of how far the weights have moved: both add up
/// the same numbers, in other orders.
const WEIGHT_TOLERANCE: f64 = 0.01;

/// Lets both learn once, and gives the weights that they start from and the loss they come to.
///
/// # Errors
/// When the two learn different things.
pub(crate) fn check(work: &Work) -> Result<Learned, Failure> {
    let first = first_weights(work)?;
    let ours = ours::run(work)?.learned;
    let bare = bare::run(work, &first)?.learned;
    if (ours.loss / bare.loss - 1.0).abs() > LOSS_TOLERANCE {
        return Err(format!("a loss of {}, the bare loop has {}", ours.loss, bare.loss).into());
    }
    for (((name, ours), (_, bare)), (_, first)) in
        ours.weights.iter().zip(&bare.weights).zip(&first)
    {
        let distance = |from: &Tensor| (ours - from).abs().max().double_value(&[]);
        let (moved, apart) = (distance(first), distance(bare));
        if moved == 0.0 || apart > moved * WEIGHT_TOLERANCE {
            return Err(format!("{name} moved by {moved}, and is {apart} apart").into());
        }
    }
    let kind = work.kind.describe();
    eprintln!("{kind}: both learn the same, with a mean loss of {:.5}", ours.loss);
    Ok(Learned { loss: ours.loss, weights: first })
}

/// The weights that the trainer starts from.
fn first_weights(work: &Work) -> Result<Vec<(String, Tensor)>, Failure> {
    let folder = tempfile::tempdir()?;
    save_first(work, folder.path())?;
    read_weights(work, folder.path())
}

/// Leaves a run whose last checkpoint is what the trainer starts from: one that is stopped after a step
/// too small to change a weight.
pub(crate) fn save_first(work: &Work, run: &Path) -> Result<(), Failure> {
    let mut settings = work.settings.clone();
    settings.learning_rate = 1e-30;
    let mut trainer = ours::trainer(work, settings, run)?;
    ours::feed(&mut trainer, work.batch(0))?;
    trainer.finish(Ending::Interrupted)?;
    Ok(())
}

/// The last weights of a run, in the order of the model's own.
pub(crate) fn read_weights(work: &Work, run: &Path) -> Result<Vec<(String, Tensor)>, Failure> {
    let path = run.join("checkpoints/last/model.safetensors");
    let mut weights: BTreeMap<String, Tensor> =
        Tensor::read_safetensors(path)?.into_iter().collect();
    let take = |name: String| {
        let tensor = weights.remove(&name).ok_or_else(|| format!("there is no {name}"))?;
        Ok((name, tensor))
    };
    work.weight_names()?.into_iter().map(take).collect()
}
