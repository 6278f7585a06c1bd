//! Which columns of a table are the series, the time, the features and the targets.
//!
//! Readers describe their table as a list of [`TableColumn`]s; [`Selection::choose`] applies the
//! settings to it. Nothing here knows Arrow or PostgreSQL types.

use crate::{LoadError, SourceSettings};
use millstream_data::{ColumnKind, NamePattern, nearest_name};
use std::collections::{HashMap, HashSet};

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
    /// What its numbers are.
    pub(crate) measure: ColumnKind,
    /// Why a glob does not pick it up and what to do about that, where somebody may expect it to.
    pub(crate) left_out: Option<String>,
}

impl TableColumn {
    /// A column without anything to say about it.
    pub(crate) fn new(name: impl Into<String>, kind: &str, content: Content) -> Self {
        let (name, kind) = (name.into(), kind.to_owned());
        TableColumn { name, kind, content, measure: ColumnKind::Number, left_out: None }
    }
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
    /// Columns that a glob of the features matches and that are not among the values: a line each.
    pub(crate) left_out: Vec<String>,
}

/// Why a glob leaves a column of missing values out.
pub(crate) const EMPTY: &str =
    "all of it is missing; name it in source.features to have it all the same";

/// Whoever needs a column besides the features.
const TARGET_KEY: &str = "target.columns (or window.segment, or a scale.reference)";
const FEATURES_KEY: &str = "source.features";

/// Columns that a message lists before it only counts them.
const LISTED: usize = 60;

impl Selection {
    /// Applies the settings to the columns of `place`.
    pub(crate) fn choose(
        table: &[TableColumn],
        settings: &SourceSettings,
        required: &[String],
        place: &str,
    ) -> Result<Self, LoadError> {
        let mut positions = HashMap::with_capacity(table.len());
        for (position, column) in table.iter().enumerate() {
            if positions.insert(column.name.as_str(), position).is_some() {
                let column = column.name.clone();
                return Err(LoadError::DuplicateColumn { place: place.to_owned(), column });
            }
        }
        let table = ColumnNames { columns: table, positions, place };
        let series = settings
            .series_column()
            .map(|name| table.find(name, "source.series (\"\" when the table is one series)"))
            .transpose()?;
        let time = table.find(&settings.time, "source.time")?;
        let keys: Vec<usize> = series.into_iter().chain([time]).collect();

        let (mut values, mut unusable) = (Values::default(), Vec::new());
        for feature in &settings.features {
            let chosen = match table.glob(feature, FEATURES_KEY)? {
                Some(glob) => {
                    let (usable, others) = table.matching(&glob, &keys);
                    // A misspelt name is refused, and so is a glob that means nothing.
                    if usable.is_empty() && others.is_empty() && settings.features.len() > 1 {
                        return Err(table.unknown(feature, FEATURES_KEY));
                    }
                    unusable.extend(others);
                    usable
                }
                None => vec![table.number(feature, FEATURES_KEY, &keys)?],
            };
            values.add(chosen);
        }
        if values.list.is_empty() {
            return Err(LoadError::NoFeature {
                place: place.to_owned(),
                features: format!("{:?}", settings.features),
                columns: table.describe_reasons(),
            });
        }
        let inputs = values.list.len();
        for target in required {
            let chosen = match table.glob(target, TARGET_KEY)? {
                Some(glob) => table.matching(&glob, &keys).0,
                None => vec![table.number(target, TARGET_KEY, &keys)?],
            };
            if chosen.is_empty() {
                return Err(table.unknown(target, TARGET_KEY));
            }
            values.add(chosen);
        }
        unusable.retain(|column| !values.seen.contains(column));
        unusable.sort_unstable();
        unusable.dedup();
        let left_out = unusable.iter().filter_map(|column| table.left_out(*column, settings));
        Ok(Selection { series, time, inputs, left_out: left_out.collect(), values: values.list })
    }

    /// The chosen columns: the series, the time, the values.
    pub(crate) fn needed(&self) -> impl Iterator<Item = usize> {
        self.series.into_iter().chain([self.time]).chain(self.values.iter().copied())
    }

    /// What the numbers of the value columns are, in order.
    pub(crate) fn value_kinds(&self, table: &[TableColumn]) -> Vec<ColumnKind> {
        self.values.iter().map(|column| table[*column].measure).collect()
    }

    /// The names of the value columns, in order.
    pub(crate) fn value_names(&self, table: &[TableColumn]) -> Vec<String> {
        self.values.iter().map(|column| table[*column].name.clone()).collect()
    }
}

/// Columns in the order in which they were chosen, each once.
#[derive(Default)]
struct Values {
    list: Vec<usize>,
    seen: HashSet<usize>,
}

impl Values {
    fn add(&mut self, chosen: Vec<usize>) {
        self.list.extend(chosen.into_iter().filter(|column| self.seen.insert(*column)));
    }
}

struct ColumnNames<'a> {
    columns: &'a [TableColumn],
    /// By name: a table may have a hundred thousand, and a later file's are all asked for by name.
    positions: HashMap<&'a str, usize>,
    place: &'a str,
}

impl ColumnNames<'_> {
    fn find(&self, name: &str, key: &'static str) -> Result<usize, LoadError> {
        self.position(name).ok_or_else(|| self.unknown(name, key))
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    fn unknown(&self, name: &str, key: &'static str) -> LoadError {
        let names = self.columns.iter().map(|column| column.name.as_str());
        LoadError::UnknownColumn {
            place: self.place.to_owned(),
            column: name.to_owned(),
            key,
            suggestion: nearest_name(name, names).map(str::to_owned),
            columns: self.describe(),
        }
    }

    /// The glob that a setting gives, unless it is the name of a column.
    fn glob(&self, text: &str, key: &'static str) -> Result<Option<NamePattern>, LoadError> {
        if self.position(text).is_some() {
            return Ok(None);
        }
        let pattern = NamePattern::parse(text)
            .map_err(|_| LoadError::Glob { key, value: text.to_owned() })?;
        Ok(pattern.is_glob().then_some(pattern))
    }

    fn number(&self, name: &str, key: &'static str, keys: &[usize]) -> Result<usize, LoadError> {
        let position = self.find(name, key)?;
        let (place, column) = (self.place.to_owned(), name.to_owned());
        if keys.contains(&position) {
            return Err(LoadError::KeyAsValue { place, column, key });
        }
        let TableColumn { content, kind, left_out, .. } = &self.columns[position];
        if *content == Content::Other || (*content == Content::Block && key == TARGET_KEY) {
            let why = left_out.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
            return Err(LoadError::NotNumeric {
                place,
                column,
                key,
                found: format!("{kind}{why}"),
            });
        }
        Ok(position)
    }

    /// The columns that a glob matches, series and time aside: those it means, and the others.
    fn matching(&self, glob: &NamePattern, keys: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let matched = (0..self.columns.len()).filter(|position| {
            !keys.contains(position) && glob.matches(&self.columns[*position].name)
        });
        matched.partition(|position| {
            matches!(self.columns[*position].content, Content::Numbers | Content::Block)
        })
    }

    /// What to say about a column that a glob of the features did not pick up.
    fn left_out(&self, position: usize, settings: &SourceSettings) -> Option<String> {
        let TableColumn { name, left_out, .. } = &self.columns[position];
        let (place, features) = (self.place, &settings.features);
        left_out.as_ref().map(|why| {
            format!("{place}: column {name:?} is left out of source.features = {features:?}: {why}")
        })
    }

    /// The columns, with what keeps them from being features.
    fn describe_reasons(&self) -> String {
        let described = self.columns.iter().map(|TableColumn { name, kind, left_out, .. }| {
            let why = left_out.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{name} ({kind}{why})")
        });
        self.list(described)
    }

    fn describe(&self) -> String {
        self.list(self.columns.iter().map(|column| format!("{} ({})", column.name, column.kind)))
    }

    /// A line that a person can read: the first columns, and how many more there are.
    fn list(&self, described: impl Iterator<Item = String>) -> String {
        let mut listed: Vec<String> = described.take(LISTED).collect();
        match self.columns.len() - listed.len() {
            0 => {}
            more => listed.push(format!("and {more} more")),
        }
        listed.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Vec<TableColumn> {
        let column = |name: &str, content| TableColumn {
            left_out: (name == "blank").then(|| "it is empty".to_owned()),
            ..TableColumn::new(name, &format!("{content:?}").to_lowercase(), content)
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

    #[test]
    fn targets_may_be_globs() {
        check(&["f1"], &["f*", "close_p?t"], &[6, 7, 5], 1);
        check_refused(&["*"], &["clos_*"], "no column \"clos_*\", which target.columns");
        check_refused(
            &["*"],
            &["[x"],
            "target.columns (or window.segment, or a scale.reference) =",
        );
    }

    #[test]
    fn columns_that_a_glob_leaves_out_are_told_of_if_that_may_surprise() {
        let told =
            |features: &[&str], required: &[&str]| choose(features, required).unwrap().left_out;
        let line = "t.csv: column \"blank\" is left out of source.features = [\"*\"]: it is empty";
        assert_eq!(told(&["*"], &[]), [line]);
        assert!(told(&["f*"], &[]).is_empty());
        assert!(told(&["*", "blank"], &[]).is_empty());
        assert!(told(&["*"], &["blank"]).is_empty());
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
