//! Says when a value is to be forecast from inputs that have no level.
//!
//! Inputs that are taken relative to something in their window look the same at any height. A model of
//! them can say how much a column will change, and not where it will be: on hourly loads an LSTM was
//! then seven times as far off as "nothing changes".

use crate::column_rules::ColumnRules;
use millstream_data::{DataSchema, Reference, TargetKind, list_names};

/// Targets that a line names.
const LISTED: usize = 5;

/// Which targets of kind `value` have no level among the inputs. `features` are treated so, in the
/// order of the schema.
pub(crate) fn missing_level(schema: &DataSchema, features: &[ColumnRules]) -> Option<String> {
    if schema.target_kind != TargetKind::Value {
        return None;
    }
    let rules = |name: &String| Some(&features[schema.features.iter().position(|f| f == name)?]);
    let has_level = |target: &&String| match rules(target).map(|rules| &rules.reference) {
        Some(Reference::None) => true,
        Some(Reference::First | Reference::Last) => false,
        // Relative to a level that is there itself.
        Some(Reference::Column(name)) => rules(name).is_some_and(|rules| !rules.is_relative()),
        // Of what else its level could be seen nobody here knows.
        None => !features.iter().all(ColumnRules::is_relative),
    };
    let without: Vec<&String> = schema.targets.iter().filter(|name| !has_level(name)).collect();
    (!without.is_empty()).then(|| {
        format!(
            "{}: a value is forecast, but the inputs are relative to their window (scale.reference) and do not \
             tell its level; set target.kind = \"difference\"",
            list_names(&without, LISTED)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        column_rules::RulesByColumn,
        settings::{ScaleGroup, ScaleSettings},
    };

    /// Inputs `close`, `high` and `volume`, each relative to what stands there.
    fn check(target: &str, kind: TargetKind, references: [&str; 3], says: bool) {
        let names = ["close", "high", "volume"].map(str::to_owned);
        let group = |(name, reference): (&String, &str)| ScaleGroup {
            columns: vec![name.clone()],
            reference: Some(Reference::from(reference.to_owned())),
            ..ScaleGroup::default()
        };
        let groups = names.iter().zip(references).map(group).collect();
        let settings = ScaleSettings { groups, ..ScaleSettings::default() };
        let rules = RulesByColumn::new(&settings, &names).unwrap();
        let features: Vec<ColumnRules> = names.iter().map(|name| rules.of(name)).collect();
        let schema = DataSchema {
            features: names.to_vec(),
            targets: vec![target.to_owned()],
            target_kind: kind,
            ..DataSchema::default()
        };
        let found = missing_level(&schema, &features);
        let expected = format!("{target}: a value is forecast, but the inputs are relative");
        assert_eq!(found.as_ref().map(|line| line.starts_with(&expected)), says.then_some(true));
    }

    #[test]
    fn a_value_whose_level_no_input_tells_is_said() {
        let value = TargetKind::Value;
        check("close", value, ["none", "none", "none"], false);
        check("close", value, ["last", "last", "last"], true);
        check("close", value, ["first", "none", "none"], true);
        check("close", value, ["none", "last", "last"], false);
        // Prices beside a close that keeps its level, and beside one that does not.
        check("high", value, ["none", "close", "none"], false);
        check("high", value, ["last", "close", "none"], true);
        // No input: it may be told by any that has a level.
        check("load", value, ["last", "last", "none"], false);
        check("load", value, ["last", "last", "last"], true);
        for change in [TargetKind::Difference, TargetKind::Return, TargetKind::Direction] {
            check("close", change, ["last", "last", "last"], false);
        }
    }
}
