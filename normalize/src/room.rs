//! Whether what a panel becomes fits in memory, before any of it is allocated.

use crate::{error::NormalizeError, fit::FitSettings};
use millstream_data::{Bytes, DataSchema, Missing, Panel, Scaling, TargetKind, available_memory};

/// What the scaled copy of a panel is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copied {
    rows: usize,
    /// Input values of a row.
    channels: usize,
    targets: usize,
    /// Steps whose outcomes stand in a row; 1 where those are the rows after it.
    steps: usize,
}

impl Copied {
    /// Of a panel that is to be learned from, at most.
    pub(crate) fn to_train(panel: &Panel, wanted: &FitSettings) -> Self {
        Copied {
            rows: panel.row_count(),
            channels: channels(panel.schema().inputs, wanted.scale.missing),
            targets: wanted.target.columns.len(),
            steps: steps(wanted.target.kind, wanted.window.horizon.get()),
        }
    }

    /// Of a panel that is to be forecast.
    pub(crate) fn to_predict(panel: &Panel, schema: &DataSchema, scaling: &Scaling) -> Self {
        Copied {
            rows: panel.row_count(),
            channels: channels(scaling.features.len(), scaling.missing),
            targets: scaling.targets.len(),
            steps: steps(schema.target_kind, schema.horizon),
        }
    }

    /// Checks that it fits into the memory that this process can have.
    ///
    /// # Errors
    /// [`NormalizeError::NoRoom`], with what would fit. Where the system does not say what it has,
    /// nothing is refused.
    pub(crate) fn check_room(&self) -> Result<(), NormalizeError> {
        available_memory().map_or(Ok(()), |free| self.check(free))
    }
}

fn channels(features: usize, missing: Missing) -> usize {
    features * if missing == Missing::Mask { 2 } else { 1 }
}

fn steps(kind: TargetKind, horizon: usize) -> usize {
    if kind == TargetKind::Value { 1 } else { horizon }
}

impl Copied {
    fn input_bytes(&self) -> u128 {
        // And a time each.
        self.rows as u128 * (self.channels * size_of::<f32>() + size_of::<i64>()) as u128
    }

    fn label_bytes(&self) -> u128 {
        // Once scaled, and once in user units.
        let values = self.rows as u128 * self.targets as u128 * 2;
        values.saturating_mul(self.steps as u128).saturating_mul(size_of::<f32>() as u128)
    }

    fn check(&self, free: u64) -> Result<(), NormalizeError> {
        let (inputs, labels) = (self.input_bytes(), self.label_bytes());
        let needed = inputs.saturating_add(labels);
        let room = u128::from(free);
        if needed <= room {
            return Ok(());
        }
        let Copied { rows, channels, targets, steps } = *self;
        let step = labels / steps as u128;
        let fits = room.saturating_sub(inputs) / 2 / step.max(1);
        let (what, instead) = if fits > 0 {
            (
                format!(
                    "window.horizon = {steps}, of which each of {rows} rows keeps the outcomes of {targets} targets,"
                ),
                format!("set window.horizon to {fits} or less, or target.kind to \"value\""),
            )
        } else {
            (
                format!("the scaled copy of {rows} rows of {channels} values"),
                "name fewer source.features or source.symbols, or a later source.from".to_owned(),
            )
        };
        let (needed, free) = (Bytes(needed), Bytes(room));
        Err(NormalizeError::NoRoom { what, needed, free, instead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let check = |steps: usize, rows: usize, expected: Option<&str>| {
            let copied = Copied { rows, channels: 10, targets: 2, steps };
            let found = copied.check(1_000_000).err().map(|error| error.to_string());
            match expected {
                None => assert_eq!(found, None),
                Some(expected) => assert!(found.as_ref().unwrap().contains(expected), "{found:?}"),
            }
        };
        check(5, 1000, None);
        check(1000, 1000, Some("set window.horizon to 29 or less"));
        check(i64::MAX as usize, 1000, Some("takes more than 1000 EB of memory"));
        check(1, 1_000_000, Some("1000000 rows of 10 values takes 64.0 MB"));
    }
}
