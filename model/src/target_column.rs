//! [`TargetColumn`]: what of a target's own past is among the inputs, for models that forecast a
//! column from itself.

use millstream_data::{DataSchema, Fit, Reference, Scaling, TargetKind};

/// A target, as a model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumn {
    /// The column's name.
    pub name: String,
    /// What of its own past is among the inputs.
    pub own_input: OwnInput,
}

/// What of a target's own past is among the inputs; numbers count the values of an input row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnInput {
    /// Nothing: its column is no input.
    Missing,
    /// This input is what is forecast, scaled alike: its last value is the level to start from.
    Level(usize),
    /// This input is its column, and what is forecast is a change, which has no level.
    Change(usize),
    /// This input is its column, and what is forecast are its values, but the two are in different
    /// units: one is relative to its window or among the series at its time, and the other is not.
    OtherUnits(usize),
}

impl OwnInput {
    /// Which input it is, if any.
    #[must_use]
    pub fn place(self) -> Option<usize> {
        match self {
            OwnInput::Missing => None,
            OwnInput::Level(at) | OwnInput::Change(at) | OwnInput::OtherUnits(at) => Some(at),
        }
    }
}

impl TargetColumn {
    /// The targets of this schema, whose columns are scaled so.
    #[must_use]
    pub fn all(schema: &DataSchema, scaling: &Scaling) -> Vec<TargetColumn> {
        let column = |(target, name): (usize, &String)| {
            let place = schema.features.iter().position(|feature| feature == name);
            let own_input = match (place, schema.target_kind) {
                (None, _) => OwnInput::Missing,
                (Some(at), TargetKind::Value) if are_in_same_units(scaling, at, target) => {
                    OwnInput::Level(at)
                }
                (Some(at), TargetKind::Value) => OwnInput::OtherUnits(at),
                (Some(at), _) => OwnInput::Change(at),
            };
            TargetColumn { name: name.clone(), own_input }
        };
        schema.targets.iter().enumerate().map(column).collect()
    }
}

/// Whether input number `feature` and the values of target number `target`, which are of one column,
/// are scaled alike in every series. Inputs alone may be clipped: a clipped level is what was asked for.
fn are_in_same_units(scaling: &Scaling, feature: usize, target: usize) -> bool {
    let columns = scaling.features.get(feature).zip(scaling.targets.get(target));
    let Some((input, label)) = columns else { return false };
    let mut series = scaling.by_series.values();
    input.reference == Reference::None
        && input.cross_section == label.cross_section
        && are_alike(&input.fit, &label.fit)
        && series.all(|fits| are_alike(&fits.features[feature], &fits.targets[target]))
}

/// Inputs and targets are fitted on the same values, but may be summed in another order.
fn are_alike(a: &Fit, b: &Fit) -> bool {
    let near = |a: f64, b: f64, unit: f64| (a - b).abs() <= 1e-6 * unit.abs();
    a.curve == b.curve && near(a.scale, b.scale, a.scale) && near(a.offset, b.offset, a.scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{ColumnScaling, CrossSection, SeriesFits};

    fn check(change: impl FnOnce(&mut DataSchema, &mut Scaling), expected: OwnInput) {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let scaled = |name: &String| ColumnScaling::affine(name.clone(), 10.0, 4.0, 10.0);
        let mut schema = DataSchema {
            features: names(&["open", "close"]),
            targets: names(&["close"]),
            ..DataSchema::default()
        };
        let mut scaling = Scaling {
            features: schema.features.iter().map(scaled).collect(),
            targets: schema.targets.iter().map(scaled).collect(),
            ..Scaling::default()
        };
        change(&mut schema, &mut scaling);
        let found = TargetColumn::all(&schema, &scaling);
        assert_eq!(found, [TargetColumn { name: schema.targets[0].clone(), own_input: expected }]);
    }

    #[test]
    fn a_level_is_an_input_that_is_scaled_as_its_target_is() {
        check(|_, _| {}, OwnInput::Level(1));
        check(|schema, _| schema.targets[0] = "volume".into(), OwnInput::Missing);
        for kind in [TargetKind::Difference, TargetKind::Return, TargetKind::Direction] {
            check(|schema, _| schema.target_kind = kind, OwnInput::Change(1));
            // A change has units of its own, whatever those of its input are.
            let change = |schema: &mut DataSchema, scaling: &mut Scaling| {
                schema.target_kind = kind;
                scaling.features[1].reference = Reference::Last;
                scaling.targets[0].fit = Fit { scale: 0.25, ..Fit::IDENTITY };
            };
            check(change, OwnInput::Change(1));
        }
        check(|_, scaling| scaling.features[1].clip = Some(3.0), OwnInput::Level(1));
        check(|_, scaling| scaling.features[1].fit.offset += 1e-7, OwnInput::Level(1));
        let other = OwnInput::OtherUnits(1);
        check(|_, scaling| scaling.features[1].fit.offset += 1e-3, other);
        check(|_, scaling| scaling.features[1].reference = Reference::Last, other);
        check(|_, scaling| scaling.targets[0].cross_section = CrossSection::Rank, other);
        let by_series = |scaling: &mut Scaling, target: &Fit| {
            let features = vec![Fit::IDENTITY, Fit::IDENTITY];
            let fits = SeriesFits { features, targets: vec![target.clone()], target_means: vec![] };
            scaling.by_series.insert("a".into(), fits);
        };
        check(|_, scaling| by_series(scaling, &Fit::IDENTITY), OwnInput::Level(1));
        let twice = Fit { scale: 2.0, ..Fit::IDENTITY };
        check(|_, scaling| by_series(scaling, &twice), other);
    }
}
