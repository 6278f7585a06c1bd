//! [`Unread`]: what the device has found of steps that nobody has looked at yet: the loss of every batch
//! and whether a step was skipped, each a scalar there; and which windows the batches were of.
//!
//! Losses are kept one by one: to add them up on the device would be several operators for every batch,
//! which is much of a small model's step, and a sum does not say whose loss was no number. Whoever reads
//! them adds them up on the host, batch after batch, so that a sum has the same bits however often it
//! was read on the way.

use crate::readback::Readback;
use std::ops::Range;
use tch::{TchError, Tensor};

/// So many scalars become one tensor, so that a long interval does not keep an allocation for each.
const FOLD: usize = 64;

/// So many windows are remembered between two reads, 12 bytes each.
const WINDOWS: usize = 1 << 20;

/// What was found of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Of which step it was a part, from 1.
    pub(crate) step: u64,
    pub(crate) windows: u64,
    /// The mean over its windows.
    pub(crate) loss: f64,
    /// Whether its step changed nothing.
    pub(crate) skipped: bool,
    /// Where its windows are in what [`Unread::windows_of_last_read`] has; empty where there were too many to remember.
    pub(crate) at: Range<usize>,
}

/// Windows, as a person knows them.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// Codes of their series.
    pub(crate) series: Vec<u32>,
    /// The times of their last rows.
    pub(crate) times: Vec<i64>,
}

/// Scalars on the device, in order.
#[derive(Debug, Default)]
struct Scalars {
    /// Those that came first, [`FOLD`] or more to a tensor.
    folded: Vec<Tensor>,
    recent: Vec<Tensor>,
}

/// What the device has found since somebody read it.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    batches: Vec<Found>,
    losses: Scalars,
    /// Of the steps that were taken.
    skips: Scalars,
    /// How many batches belong to those.
    complete: usize,
    /// Of how many losses the step is made that comes next.
    pending: usize,
    windows: Windows,
    /// Of the batches that were read last.
    windows_read: Windows,
}

impl Scalars {
    /// Folds what is recent if it is much.
    fn fold(&mut self, at_least: usize) -> Result<(), TchError> {
        if self.recent.len() >= at_least {
            self.folded.push(Tensor::f_stack(&self.recent, 0)?);
            self.recent.clear();
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.folded.clear();
        self.recent.clear();
    }
}

impl Unread {
    /// Takes the loss of a batch of step `step`, a scalar, with the series and times of its windows. It
    /// must not keep its graph.
    pub(crate) fn add(&mut self, step: u64, series: &[u32], times: &[i64], loss: Tensor) {
        let (start, windows) = (self.windows.series.len(), series.len());
        if start + windows <= WINDOWS {
            self.windows.series.extend_from_slice(series);
            self.windows.times.extend_from_slice(times);
        }
        let at = start..self.windows.series.len();
        let windows = windows as u64;
        self.batches.push(Found { step, windows, loss: f64::NAN, skipped: false, at });
        self.losses.recent.push(loss);
        self.pending += 1;
    }

    /// The losses of the step that comes next.
    pub(crate) fn pending(&self) -> &[Tensor] {
        let recent = &self.losses.recent;
        &recent[recent.len() - self.pending..]
    }

    /// The step of all batches so far was taken, or skipped where this scalar is 1.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(crate) fn step_taken(&mut self, skipped: Tensor) -> Result<(), TchError> {
        self.skips.recent.push(skipped);
        (self.complete, self.pending) = (self.batches.len(), 0);
        self.losses.fold(FOLD)?;
        self.skips.fold(FOLD)
    }

    /// What was found of all steps since the last read; batches of a step that was not taken are
    /// forgotten, as they come again. Waits for the device, but if there is nothing to read.
    ///
    /// # Errors
    /// When the device, or what was computed there, has failed.
    pub(crate) fn read(&mut self, readback: &mut Readback) -> Result<Vec<Found>, TchError> {
        std::mem::swap(&mut self.windows, &mut self.windows_read);
        self.windows.series.clear();
        self.windows.times.clear();
        let mut batches = std::mem::take(&mut self.batches);
        let losses = batches.len();
        batches.truncate(std::mem::take(&mut self.complete));
        if !batches.is_empty() {
            self.losses.fold(1)?;
            self.skips.fold(1)?;
            let parts: Vec<&Tensor> = self.losses.folded.iter().chain(&self.skips.folded).collect();
            let numbers = readback.numbers(&Tensor::f_cat(&parts, 0)?)?;
            let (losses, skips) = numbers.split_at(losses);
            let first = batches[0].step;
            for (batch, loss) in batches.iter_mut().zip(losses) {
                batch.loss = *loss;
                batch.skipped = skips[(batch.step - first) as usize] != 0.0;
            }
        }
        self.pending = 0;
        self.losses.clear();
        self.skips.clear();
        Ok(batches)
    }

    /// The windows of the batches that were read last.
    pub(crate) fn windows_of_last_read(&self) -> &Windows {
        &self.windows_read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads twice so many batches, of which so many make a step; some are left over.
    fn check(batches: usize, of_step: usize) {
        let (mut unread, mut readback) = (Unread::default(), Readback::default());
        let taken = batches - batches % of_step;
        for round in 0..2 {
            for i in 0..batches {
                let step = 7 + (i / of_step) as u64;
                let loss = Tensor::from((round * 1000 + i) as f32);
                let size = i % 3 + 1;
                unread.add(step, &vec![i as u32; size], &vec![i as i64; size], loss);
                assert_eq!(unread.pending().len(), i % of_step + 1);
                if (i + 1).is_multiple_of(of_step) {
                    unread.step_taken(Tensor::from(f32::from(step.is_multiple_of(5)))).unwrap();
                }
            }
            let found = unread.read(&mut readback).unwrap();
            assert_eq!(found.len(), taken, "{batches} batches, {of_step} a step");
            for (i, found) in found.into_iter().enumerate() {
                assert_eq!(found.loss, (round * 1000 + i) as f64);
                assert_eq!(found.step, 7 + (i / of_step) as u64);
                assert_eq!(found.skipped, found.step.is_multiple_of(5));
                assert_eq!(found.windows, found.at.len() as u64);
                let Windows { series, times } = unread.windows_of_last_read();
                assert!(series[found.at.clone()].iter().all(|code| *code == i as u32));
                assert!(times[found.at].iter().all(|time| *time == i as i64));
            }
        }
        assert_eq!(readback.reads(), if taken > 0 { 2 } else { 0 });
    }

    #[test]
    fn every_loss_of_a_step_is_read_once_and_in_order() {
        for batches in [0, 1, 63, 64, 65, 128, 200] {
            check(batches, 1);
        }
        check(200, 3);
        check(150, 70);
        check(3, 4);
    }

    #[test]
    fn windows_beyond_the_most_are_not_remembered() {
        let mut unread = Unread::default();
        for size in [WINDOWS - 1, 2, 1] {
            unread.add(1, &vec![1; size], &vec![1; size], Tensor::from(0.0f32));
        }
        unread.step_taken(Tensor::from(0.0f32)).unwrap();
        let found = unread.read(&mut Readback::default()).unwrap();
        assert_eq!([0, 1, 2].map(|i: usize| found[i].at.len()), [WINDOWS - 1, 0, 1]);
    }
}
