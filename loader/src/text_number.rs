//! Numbers as people write them in text files.

/// What a cell of a text column may hold instead of a number, besides nothing.
const MISSING: [&str; 6] = ["NA", "N/A", "null", "NULL", "None", "-"];

/// Whether a cell without blanks around it stands for no number.
pub(crate) fn is_missing(text: &str, na: &[String]) -> bool {
    text.is_empty() || MISSING.contains(&text) || na.iter().any(|missing| missing == text)
}

/// Reads a number as people write them in text files: missing is NaN, a truth value 1 or 0.
pub(crate) fn parse_number(text: &str, na: &[String]) -> Option<f64> {
    let text = text.trim();
    if is_missing(text, na) {
        return Some(f64::NAN);
    }
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) if text.eq_ignore_ascii_case("true") => Some(1.0),
        Err(_) if text.eq_ignore_ascii_case("false") => Some(0.0),
        Err(_) => None,
    }
}
