//! Adding the embedding of a row's segment to its inputs: position after position, or at once by
//! broadcasting over the batch.
//!
//! A window's rows are divided into segments of equal length, the same in all windows.

use crate::{
    finding::Finding,
    harness::Failure,
    training::{self, Manner},
    turns::Turns,
    workload::{BATCH, FEATURES, Size},
};
use tch::{Device, Kind, Tensor};

/// Segments of a window.
pub(crate) const SEGMENTS: i64 = 5;

/// Embeddings of a batch that make a figure.
const REPEATS: usize = 10;

/// How embeddings are added to the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Embedding {
    None,
    EachPosition,
    AtOnce,
}

/// Adds the embeddings in `table` to inputs `[rows, lookback, features]`.
pub(crate) fn embed(inputs: &Tensor, table: &Tensor, embedding: Embedding) -> Tensor {
    let lookback = inputs.size()[1];
    let segment = |at: i64| at * SEGMENTS / lookback;
    let look_up = |segments: &[i64]| {
        Tensor::embedding(table, &Tensor::from_slice(segments), -1, false, false)
    };
    match embedding {
        Embedding::None => inputs.shallow_clone(),
        Embedding::EachPosition => {
            let position = |at: i64| inputs.select(1, at) + look_up(&[segment(at)]);
            let positions: Vec<Tensor> = (0..lookback).map(position).collect();
            Tensor::stack(&positions, 1)
        }
        Embedding::AtOnce => {
            let segments: Vec<i64> = (0..lookback).map(segment).collect();
            inputs + look_up(&segments)
        }
    }
}

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    const WAYS: [Embedding; 2] = [Embedding::EachPosition, Embedding::AtOnce];
    let options = (Kind::Float, Device::Cpu);
    let inputs = Tensor::rand([BATCH as i64, 60, FEATURES as i64], options);
    let table = Tensor::rand([SEGMENTS, FEATURES as i64], options).set_requires_grad(true);
    let [usual, promised] = WAYS.map(|way| embed(&inputs, &table, way));
    if usual != promised {
        return Err("the two ways embed differently".into());
    }

    let names =
        ["forward, each position", "forward, at once", "both, each position", "both, at once"];
    let turns = Turns::take(&names, size.rounds, |way| {
        for _ in 0..REPEATS {
            let embedded = embed(&inputs, &table, WAYS[way % 2]);
            if way >= 2 {
                embedded.sum(Kind::Float).backward();
                let _ = table.grad().zero_();
            }
        }
        Ok(())
    })?;
    let manners = WAYS.map(|embedding| Manner { embedding, ..Manner::PROMISED });
    let trained = training::train(size, manners)?;
    let ms = |way: usize| turns.median(way) / REPEATS as f64 * 1e3;
    Ok(Finding {
        measured: Some(turns.gain(0, 1).median),
        losses: Some(trained.losses),
        how: format!(
            "embeddings of 60 positions added to [256, 60, 105], 1 thread: forward {:.2} ms, then \
             {:.2} ms; with backward {:.2} ms, then {:.2} ms; a whole step of {:.0} ms gains {:.1} \
             % ({})",
            ms(0),
            ms(1),
            ms(2),
            ms(3),
            trained.step_ms,
            trained.gain.percent(),
            trained.how
        ),
        reason: None,
    })
}
