//! Names in a message: the one that somebody may have meant, and a list that does not get too long.

/// How alike a name must be to be taken for a slip of the pen.
const SIMILAR: f64 = 0.8;

/// Names that a hint lists.
const LISTED: usize = 12;

/// The most similar of the names, if any is similar enough to be a slip of the pen.
///
/// ```
/// use millstream_data::nearest_name;
///
/// assert_eq!(nearest_name("clsoe", ["open", "Close"]), Some("Close"));
/// assert_eq!(nearest_name("volume", ["open", "Close"]), None);
/// ```
pub fn nearest_name<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_by(names, |name| likeness(wanted, name))
}

/// The one of which `likeness` is highest, if that is enough for a slip of the pen.
pub fn nearest_by<T>(
    names: impl IntoIterator<Item = T>,
    likeness: impl Fn(&T) -> f64,
) -> Option<T> {
    let similar = |name: T| Some((likeness(&name), name)).filter(|(score, _)| *score > SIMILAR);
    let found = names.into_iter().filter_map(similar);
    found.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}

/// How alike two names are, from 0 to 1, whatever their case.
#[must_use]
pub fn likeness(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(&one.to_lowercase(), &other.to_lowercase())
}

/// What to say of a column that is not among those there are: the one that was meant, or else all.
#[must_use]
pub fn column_hint(asked: &str, columns: &[String]) -> String {
    let listed = list_names(columns, LISTED);
    match nearest_name(asked, columns.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean {nearest:?}? It has {listed}"),
        None => format!("it has {listed}"),
    }
}

/// At most `shown` of these names, and how many more there are.
#[must_use]
pub fn list_names<S: AsRef<str>>(names: &[S], shown: usize) -> String {
    let named = names.iter().take(shown).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(shown) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::list_names;

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(list_names(&["a", "b"], 2), "a, b");
        assert_eq!(list_names(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(list_names::<&str>(&[], 2), "");
    }
}
