//! [`ColumnRules`]: how one column is treated, once the groups of `[scale]` have been looked through.

use crate::{
    error::NormalizeError,
    scalers::ScaleMethod,
    settings::{ScaleGroup, ScalePer, ScaleSettings},
};
use glob::Pattern;
use millstream_data::{ColumnScaling, CrossSection, Fit, Reference, Relative};

/// How one column is treated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnRules {
    pub(crate) method: ScaleMethod,
    pub(crate) per: ScalePer,
    pub(crate) clip: Option<f64>,
    pub(crate) cross_section: CrossSection,
    pub(crate) reference: Reference,
    pub(crate) relative: Relative,
}

/// The groups of `[scale]`, ready to look columns up in.
#[derive(Debug)]
pub(crate) struct RulesByColumn<'a> {
    settings: &'a ScaleSettings,
    groups: Vec<(Vec<Pattern>, &'a ScaleGroup)>,
}

impl<'a> RulesByColumn<'a> {
    /// Reads the globs, and checks that every group names a column and asks for what there is.
    pub(crate) fn new(
        settings: &'a ScaleSettings,
        columns: &[String],
    ) -> Result<Self, NormalizeError> {
        let mut groups = Vec::with_capacity(settings.groups.len());
        for (i, group) in settings.groups.iter().enumerate() {
            let mut patterns = Vec::with_capacity(group.columns.len());
            for text in &group.columns {
                let pattern = Pattern::new(text).map_err(|error| NormalizeError::Glob {
                    group: i + 1,
                    glob: text.clone(),
                    reason: error.msg,
                })?;
                if !columns.iter().any(|name| pattern.matches(name)) {
                    let (glob, columns) = (text.clone(), columns.to_vec());
                    return Err(NormalizeError::EmptyGroup { group: i + 1, glob, columns });
                }
                patterns.push(pattern);
            }
            groups.push((patterns, group));
        }
        let rules_by_column = RulesByColumn { settings, groups };
        columns.iter().try_for_each(|name| rules_by_column.of(name).check(name, columns))?;
        Ok(rules_by_column)
    }

    /// How a column is treated.
    pub(crate) fn of(&self, column: &str) -> ColumnRules {
        let named = |(patterns, _): &&(Vec<Pattern>, _)| patterns.iter().any(|p| p.matches(column));
        let group = self.groups.iter().find(named).map(|(_, group)| *group);
        let all = self.settings;
        let clip = group.and_then(|g| g.clip).unwrap_or(all.clip);
        let reference = group.and_then(|g| g.reference.clone());
        ColumnRules {
            method: group.and_then(|g| g.method).unwrap_or(all.method),
            per: group.and_then(|g| g.per).unwrap_or(all.per),
            clip: (clip != 0.0).then_some(clip),
            cross_section: group.and_then(|g| g.cross_section).unwrap_or(all.cross_section),
            reference: reference.unwrap_or_else(|| all.reference.clone()),
            relative: group.and_then(|g| g.relative).unwrap_or(all.relative),
        }
    }
}

impl ColumnRules {
    /// Whether its values are taken relative to something in their window.
    pub(crate) fn is_relative(&self) -> bool {
        self.reference != Reference::None
    }

    /// The scaling of an input column with these numbers.
    pub(crate) fn scaling(&self, name: &str, fit: Fit, mean: f64) -> ColumnScaling {
        ColumnScaling {
            name: name.to_owned(),
            cross_section: self.cross_section,
            reference: self.reference.clone(),
            relative: self.relative,
            fit,
            clip: self.clip,
            mean,
        }
    }

    fn check(&self, column: &str, columns: &[String]) -> Result<(), NormalizeError> {
        if let Some(clip) = self.clip
            && !(clip > 0.0 && clip.is_finite())
        {
            return Err(NormalizeError::Clip { value: clip });
        }
        if let Reference::Column(name) = &self.reference
            && !columns.contains(name)
        {
            let (column, columns) = (name.clone(), columns.to_vec());
            return Err(NormalizeError::UnknownReference { column, columns });
        }
        if self.is_relative() && self.method.is_curved() {
            let (column, method) = (column.to_owned(), self.method.name());
            return Err(NormalizeError::CurvedReference { column, method });
        }
        if self.is_relative() && self.cross_section != CrossSection::None {
            return Err(NormalizeError::Conflict {
                first: format!("scale.reference of column {column:?}"),
                second: "its scale.cross_section",
                instead: "a cross-section has no raw units: set one of the two to \"none\", for single columns in their own entry of [[scale.groups]]",
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<String> {
        ["open", "close", "volume", "f1", "f2"].map(String::from).to_vec()
    }

    fn group(columns: &[&str]) -> ScaleGroup {
        ScaleGroup {
            columns: columns.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn the_first_group_that_names_a_column_counts_and_the_rest_is_as_for_all() {
        let prices = ScaleGroup {
            reference: Some(Reference::Column("close".into())),
            relative: Some(Relative::Ratio),
            ..group(&["open", "cl*"])
        };
        let volumes = ScaleGroup { method: Some(ScaleMethod::Log1p), ..group(&["vol*", "open"]) };
        let settings =
            ScaleSettings { clip: 4.0, groups: vec![prices, volumes], ..Default::default() };
        let rules_by_column = RulesByColumn::new(&settings, &columns()).unwrap();
        assert_eq!(rules_by_column.of("open").reference, Reference::Column("close".into()));
        assert_eq!(rules_by_column.of("open").method, ScaleMethod::Zscore);
        assert_eq!(rules_by_column.of("volume").method, ScaleMethod::Log1p);
        assert_eq!(rules_by_column.of("f1").reference, Reference::None);
        assert_eq!(rules_by_column.of("f1").clip, Some(4.0));
    }

    fn check_refused(settings: &ScaleSettings, expected: &str) {
        let error = RulesByColumn::new(settings, &columns()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn groups_that_make_no_sense_are_refused() {
        let with = |group| ScaleSettings { groups: vec![group], ..Default::default() };
        check_refused(&with(group(&["price*"])), "\"price*\", which matches no column");
        check_refused(&with(group(&["f[1"])), "scale.groups entry 1: \"f[1\" is not a glob");
        let relative = ScaleGroup { reference: Some(Reference::Last), ..group(&["volume"]) };
        let log = ScaleGroup { method: Some(ScaleMethod::Log1p), ..relative.clone() };
        check_refused(&with(log), "method \"log1p\"");
        let ranked = ScaleGroup { cross_section: Some(CrossSection::Rank), ..relative };
        check_refused(&with(ranked), "a cross-section has no raw units");
        let unknown = Reference::Column("closed".into());
        check_refused(
            &ScaleSettings { reference: unknown, ..Default::default() },
            "did you mean \"close\"?",
        );
        check_refused(&ScaleSettings { clip: -1.0, ..Default::default() }, "scale.clip is -1");
    }
}
