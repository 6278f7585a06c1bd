//! Names and values in SQL text: COPY and LOCK take no parameters.

/// Quotes a name.
#[must_use]
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text, whatever `standard_conforming_strings` is set to; `None` for one with a zero byte,
/// which PostgreSQL's text does not have.
#[must_use]
pub fn quote_value(value: &str) -> Option<String> {
    if value.contains('\0') {
        return None;
    }
    let quoted = value.replace('\'', "''");
    Some(match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    })
}
