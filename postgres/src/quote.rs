//! Names and values in SQL text: COPY and LOCK take no parameters.

/// Quotes a name.
#[must_use]
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The parts of `schema.table`. One that is quoted may hold dots; none is made small. `None` where one is
/// empty or does not end.
#[must_use]
pub fn name_parts(path: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for letter in path.trim().chars() {
        match letter {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            _ => parts.last_mut().expect("there is always a last part").push(letter),
        }
    }
    let refused = quoted || parts.iter().any(String::is_empty) || path.contains('\0');
    (!refused).then_some(parts)
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
