//! The name that somebody may have meant.

/// The most similar of the names, if any is similar enough to be a slip of the pen.
pub(crate) fn nearest_name<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = wanted.to_lowercase();
    let similar = |name: &'a str| {
        let score = strsim::jaro_winkler(&wanted, &name.to_lowercase());
        (score > 0.8).then_some((score, name))
    };
    let found = names.into_iter().filter_map(similar);
    found.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name)
}
