//! Names in a message: the first few, and how many more there are.

/// At most `shown` of these names.
pub(crate) fn list<S: AsRef<str>>(names: &[S], shown: usize) -> String {
    let named = names.iter().take(shown).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(shown) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::list;

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(list(&["a", "b"], 2), "a, b");
        assert_eq!(list(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(list::<&str>(&[], 2), "");
    }
}
