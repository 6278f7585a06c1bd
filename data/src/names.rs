//! [`NamePattern`]: a column's name, or a glob that means several.
//!
//! The loader and whoever looks for columns in a panel must agree on what `close_*` means; so both
//! ask here. Which columns of a table can be used at all is the loader's business.

use crate::panel::{ColumnKind, PanelSchema};
use glob::Pattern;

/// A name, or a glob made of `*`, `?` and `[abc]`.
///
/// ```
/// use millstream_data::NamePattern;
///
/// let pattern = NamePattern::parse("close_*")?;
/// assert!(pattern.is_glob() && pattern.matches("close_pct") && !pattern.matches("open"));
/// # Ok::<(), millstream_data::NameError>(())
/// ```
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    glob: Option<Pattern>,
}

/// Why names and globs mean no columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A glob that cannot be read.
    #[error("{pattern:?} is no name and no glob made of *, ? and [abc]")]
    Glob {
        /// The text.
        pattern: String,
    },
    /// There is no column of this name, or none that the glob matches.
    #[error("no column is called {pattern:?}; there are {columns}")]
    NoColumn {
        /// The name or glob.
        pattern: String,
        /// The columns there are.
        columns: String,
    },
}

impl NamePattern {
    /// Reads a name or a glob.
    ///
    /// # Errors
    /// [`NameError::Glob`] when it looks like a glob and is none.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let glob = match text.contains(['*', '?', '[']) {
            true => {
                Some(Pattern::new(text).map_err(|_| NameError::Glob { pattern: text.to_owned() })?)
            }
            false => None,
        };
        Ok(NamePattern { text: text.to_owned(), glob })
    }

    /// Whether it may mean several columns.
    #[must_use]
    pub fn is_glob(&self) -> bool {
        self.glob.is_some()
    }

    /// Whether it means the column of this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match &self.glob {
            Some(glob) => glob.matches(name),
            None => self.text == name,
        }
    }
}

impl PanelSchema {
    /// The columns that names and globs mean, as positions, each once: by the order of the list, and
    /// those of one glob by the order of the panel. A name that is there as it is written means that
    /// column, whatever it would match as a glob; a glob does not mean times that are used as numbers.
    ///
    /// # Errors
    /// When one of them means no column, or is no glob.
    pub fn find_columns(&self, names: &[String]) -> Result<Vec<usize>, NameError> {
        let mut found = Vec::new();
        for name in names {
            let exact = self.columns.iter().position(|column| column == name);
            let meant: Vec<usize> = match exact {
                Some(position) => vec![position],
                None => {
                    let pattern = NamePattern::parse(name)?;
                    let fits = |position: &usize| {
                        pattern.matches(&self.columns[*position])
                            && self.kinds.get(*position) != Some(&ColumnKind::Time)
                    };
                    (0..self.columns.len()).filter(fits).collect()
                }
            };
            if meant.is_empty() {
                let (pattern, columns) = (name.clone(), self.columns.join(", "));
                return Err(NameError::NoColumn { pattern, columns });
            }
            for position in meant {
                if !found.contains(&position) {
                    found.push(position);
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeKind;

    fn find(names: &[&str]) -> Result<Vec<usize>, NameError> {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let schema = PanelSchema {
            series_column: None,
            time_column: "day".into(),
            time_kind: TimeKind::Integer,
            columns: owned(&["close_pct", "open", "close_day", "e[1]", "e1"]),
            kinds: [ColumnKind::Number; 2].into_iter().chain([ColumnKind::Time]).collect(),
            inputs: 5,
            series: Vec::new(),
            fingerprint: String::new(),
        };
        schema.find_columns(&owned(names))
    }

    #[test]
    fn names_and_globs_mean_columns_once_and_in_order() {
        assert_eq!(find(&["open", "close_*", "o*"]), Ok(vec![1, 0]));
        assert_eq!(find(&["close_day"]), Ok(vec![2]));
        assert_eq!(find(&["e[1]"]), Ok(vec![3]), "a name comes before the glob that it looks like");
        assert_eq!(find(&["?[1]"]), Ok(vec![4]));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let error = find(&["clos"]).unwrap_err().to_string();
        assert!(
            error.contains("no column is called \"clos\"; there are close_pct, open"),
            "{error}"
        );
        assert!(find(&["x*"]).unwrap_err().to_string().contains("\"x*\""));
        assert_eq!(find(&["[x"]), Err(NameError::Glob { pattern: "[x".into() }));
    }
}
