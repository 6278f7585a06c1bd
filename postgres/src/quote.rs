//! Names and values in SQL text: COPY and LOCK take no parameters.

/// Quotes a name.
#[must_use]
pub fn quote_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The parts of `schema.table`. One that is quoted may hold dots, and a quote written twice; none is made
/// small. `None` where one is empty or does not end.
#[must_use]
pub fn name_parts(path: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut letters = path.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => {
                parts.last_mut().expect("there is always a last part").push('"');
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_as_they_are_written() {
        let check = |path: &str, expected: &[&str]| {
            assert_eq!(name_parts(path).unwrap_or_default(), expected, "{path}");
        };
        check(" Public.Prices ", &["Public", "Prices"]);
        check("\"a.b\".c", &["a.b", "c"]);
        check("\"a\"\"b\"", &["a\"b"]);
        check("\"\"\"\".\"\"\"a\"", &["\"", "\"a"]);
        for refused in ["", "a.", ".a", "\"a", "\"\"", "\"a\"\"", "a\0"] {
            check(refused, &[]);
        }
    }
}
