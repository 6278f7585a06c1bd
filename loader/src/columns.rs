//! Which columns of a table are the series, the time, the features and the targets.
//!
//! Readers describe their table as a list of [`TableColumn`]s; [`Selection::choose`] applies the
//! settings to it. Nothing here knows Arrow or PostgreSQL types.

use crate::{LoadError, SourceSettings};
use glob::Pattern;
use std::collections::HashSet;

/// What a column can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Numbers or booleans.
    Numbers,
    /// Arrays of numbers: a block of features, but no target.
    Block,
    /// Nothing but missing values, or times as numbers: usable when named, but no glob should pick
    /// it up.
    OnRequest,
    /// Anything else.
    Other,
}

/// A column of a table, as far as choosing is concerned.
#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    /// The type as the user knows it.
    pub(crate) kind: String,
    pub(crate) content: Content,
}

/// The chosen columns, as positions in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) series: Option<usize>,
    pub(crate) time: usize,
    /// Features, then the targets that are not features.
    pub(crate) values: Vec<usize>,
    /// How many of `values` are features.
    pub(crate) inputs: usize,
}

/// Whoever needs a column besides the features.
const TARGET_KEY: &str = "target.columns (or window.segment, or a scale.reference)";
const FEATURES_KEY: &str = "source.features";

impl Selection {
    /// Applies the settings to the columns of `place`.
    pub(crate) fn choose(
        table: &[TableColumn],
        settings: &SourceSettings,
        required: &[String],
        place: &str,
    ) -> Result<Self, LoadError> {
        let mut seen = HashSet::new();
        if let Some(twice) = table.iter().find(|column| !seen.insert(&column.name)) {
            let column = twice.name.clone();
            return Err(LoadError::DuplicateColumn { place: place.to_owned(), column });
        }
        let table = Table { columns: table, place };
        let series = settings
            .series_column()
            .map(|name| table.find(name, "source.series (\"\" when the table is one series)"))
            .transpose()?;
        let time = table.find(&settings.time, "source.time")?;
        let keys: Vec<usize> = series.into_iter().chain([time]).collect();

        let mut values = Vec::new();
        for feature in &settings.features {
            let chosen = if feature.contains(['*', '?', '[']) {
                table.matching(feature, &keys)?
            } else {
                vec![table.number(feature, FEATURES_KEY, &keys)?]
            };
            add_new(&mut values, chosen);
        }
        if values.is_empty() {
            return Err(LoadError::NoFeature {
                place: place.to_owned(),
                features: format!("{:?}", settings.features),
                columns: table.describe(),
            });
        }
        let inputs = values.len();
        for target in required {
            add_new(&mut values, vec![table.number(target, TARGET_KEY, &keys)?]);
        }
        Ok(Selection { series, time, values, inputs })
    }

    /// The names of the value columns, in order.
    pub(crate) fn value_names(&self, table: &[TableColumn]) -> Vec<String> {
        self.values.iter().map(|column| table[*column].name.clone()).collect()
    }
}

fn add_new(values: &mut Vec<usize>, chosen: Vec<usize>) {
    for column in chosen {
        if !values.contains(&column) {
            values.push(column);
        }
    }
}

struct Table<'a> {
    columns: &'a [TableColumn],
    place: &'a str,
}

impl Table<'_> {
    fn find(&self, name: &str, key: &'static str) -> Result<usize, LoadError> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            LoadError::UnknownColumn {
                place: self.place.to_owned(),
                column: name.to_owned(),
                key,
                suggestion: self.nearest(name),
                columns: self.describe(),
            }
        })
    }

    fn number(&self, name: &str, key: &'static str, keys: &[usize]) -> Result<usize, LoadError> {
        let position = self.find(name, key)?;
        let (place, column) = (self.place.to_owned(), name.to_owned());
        if keys.contains(&position) {
            return Err(LoadError::KeyAsValue { place, column, key });
        }
        let TableColumn { content, kind, .. } = &self.columns[position];
        if *content == Content::Other || (*content == Content::Block && key == TARGET_KEY) {
            return Err(LoadError::NotNumeric { place, column, key, found: kind.clone() });
        }
        Ok(position)
    }

    fn matching(&self, glob: &str, keys: &[usize]) -> Result<Vec<usize>, LoadError> {
        let pattern = Pattern::new(glob).map_err(|_| LoadError::Setting {
            key: "features",
            value: glob.to_owned(),
            expected: "a name, or a glob made of *, ? and [abc]",
        })?;
        let fits = |(position, column): &(usize, &TableColumn)| {
            !keys.contains(position)
                && matches!(column.content, Content::Numbers | Content::Block)
                && pattern.matches(&column.name)
        };
        Ok(self.columns.iter().enumerate().filter(fits).map(|(position, _)| position).collect())
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let wanted = name.to_lowercase();
        let similar = |column: &TableColumn| {
            let score = strsim::jaro_winkler(&wanted, &column.name.to_lowercase());
            (score > 0.8).then(|| (score, column.name.clone()))
        };
        self.columns
            .iter()
            .filter_map(similar)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, name)| name)
    }

    fn describe(&self) -> String {
        let described: Vec<String> = self
            .columns
            .iter()
            .map(|column| format!("{} ({})", column.name, column.kind))
            .collect();
        described.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<TableColumn> {
        let column = |name: &str, content| TableColumn {
            name: name.to_owned(),
            kind: format!("{content:?}").to_lowercase(),
            content,
        };
        vec![
            column("trade_date", Content::Other),
            column("open", Content::Numbers),
            column("symbol", Content::Other),
            column("note", Content::Other),
            column("blank", Content::OnRequest),
            column("close_pct", Content::Numbers),
            column("f1", Content::Numbers),
            column("f2", Content::Numbers),
            column("e", Content::Block),
        ]
    }

    fn choose(features: &[&str], required: &[&str]) -> Result<Selection, LoadError> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let settings = SourceSettings { features: owned(features), ..SourceSettings::default() };
        Selection::choose(&table(), &settings, &owned(required), "t.csv")
    }

    fn check(features: &[&str], required: &[&str], values: &[usize], inputs: usize) {
        let found = choose(features, required).unwrap();
        assert_eq!((found.series, found.time), (Some(2), 0));
        assert_eq!((found.values.as_slice(), found.inputs), (values, inputs));
    }

    #[test]
    fn globs_follow_the_table_and_names_the_list() {
        check(&["*"], &["close_pct"], &[1, 5, 6, 7, 8], 5);
        check(&["f2", "open"], &["close_pct"], &[7, 1, 5], 2);
        check(&["f2", "f*", "f2"], &[], &[7, 6], 2);
        check(&["blank"], &[], &[4], 1);
    }

    fn check_refused(features: &[&str], required: &[&str], expected: &str) {
        let error = choose(features, required).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn wrong_names_are_refused_with_what_exists() {
        check_refused(
            &["opne"],
            &[],
            "no column \"opne\", which source.features names (did you mean \"open\"?)",
        );
        check_refused(
            &["*"],
            &["close"],
            "target.columns (or window.segment, or a scale.reference) names (did you mean \"close_pct\"?); its columns are trade_date (other), open",
        );
        check_refused(&["note"], &[], "\"note\", which source.features names, has type other");
        check_refused(
            &["*"],
            &["e"],
            "\"e\", which target.columns (or window.segment, or a scale.reference) names, has type block",
        );
        check_refused(&["symbol"], &[], "is the series or the time");
        check_refused(&["x*"], &[], "[\"x*\"] matches no numeric column");
        check_refused(&["[x"], &[], "source.features = \"[x\" cannot be used");
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let mut twice = table();
        twice.push(twice[1].clone());
        let error = Selection::choose(&twice, &SourceSettings::default(), &[], "t").unwrap_err();
        assert!(error.to_string().contains("two columns called \"open\""), "{error}");
    }
}
