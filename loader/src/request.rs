//! [`Request`]: what a reader is asked for.

use crate::{
    LoadError, SourceSettings,
    files::{self, SourceFile},
};
use millstream_data::{NamePattern, PanelSchema};
use millstream_stage::Warnings;

/// What to read.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) settings: &'a SourceSettings,
    /// Columns that must be there, features or not.
    pub(crate) required: &'a [String],
    /// The files that `source.path` means, as they were when the cache was asked for them.
    pub(crate) files: Vec<SourceFile>,
    /// Where to say what happened on the way; what must be known of the rows goes with them.
    pub(crate) warnings: &'a Warnings,
}

impl<'a> Request<'a> {
    /// Checks the settings and finds the files that they mean.
    pub(crate) fn new(
        settings: &'a SourceSettings,
        required: &'a [String],
        warnings: &'a Warnings,
    ) -> Result<Self, LoadError> {
        settings.check()?;
        let files = files::find(settings, warnings)?;
        Ok(Request { settings, required, files, warnings })
    }

    /// What to call a table or query in messages.
    pub(crate) fn place(&self) -> String {
        match &self.settings.table {
            Some(table) => format!("table {table}"),
            None => "the query".to_owned(),
        }
    }

    /// Required columns that the features do not name: those that add to the panel. What is forecast
    /// decides the panel only where it is not shown to the model anyway.
    pub(crate) fn beside_features(&self) -> Vec<&str> {
        let features = &self.settings.features;
        // One that cannot be read is refused by whoever reads the source.
        let patterns: Vec<NamePattern> =
            features.iter().filter_map(|text| NamePattern::parse(text).ok()).collect();
        let named = |name: &str| match is_glob(name) {
            // Whether one glob means all that another does is not worth finding out.
            true => features.iter().any(|feature| feature == "*" || feature == name),
            false => patterns.iter().any(|pattern| pattern.matches(name)),
        };
        self.required.iter().map(String::as_str).filter(|name| !named(name)).collect()
    }

    /// Whether a panel has every column that is required by its name. A glob among the features
    /// leaves out columns that can be used when they are named.
    pub(crate) fn is_met_by(&self, panel: &PanelSchema) -> bool {
        self.required.iter().all(|name| is_glob(name) || panel.columns.contains(name))
    }
}

fn is_glob(name: &str) -> bool {
    NamePattern::parse(name).is_ok_and(|pattern| pattern.is_glob())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_features_name_does_not_add_to_the_panel() {
        let check = |features: &[&str], required: &[&str], expected: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
            let settings =
                SourceSettings { features: owned(features), ..SourceSettings::default() };
            let (required, warnings) = (owned(required), Warnings::default());
            let request = Request::new(&settings, &required, &warnings).unwrap();
            assert_eq!(request.beside_features(), expected, "{features:?} and {required:?}");
        };
        check(&["*"], &["close", "f1", "c*"], &[]);
        check(&["f?"], &["close", "f1"], &["close"]);
        check(&["clos?"], &["clos*"], &["clos*"]);
        check(&["c*"], &["c*", "close"], &[]);
        check(&["["], &["close"], &["close"]);
    }
}
