//! Why a JSON file of a checkpoint does not parse, for people.

use serde_json::error::Category;

/// What is wrong with it, without the names that its fields and types have in the program.
#[must_use]
pub fn json_reason(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    match error.classify() {
        Category::Eof => "it ends too early".to_owned(),
        Category::Syntax | Category::Io => format!("it is no JSON from {place} on"),
        Category::Data => format!("it does not hold what it should, at {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_without_type_names() {
        let check = |text: &str, expected: &str| {
            let error = serde_json::from_str::<Vec<u8>>(text).unwrap_err();
            assert_eq!(json_reason(&error), expected);
        };
        check("[1", "it ends too early");
        check("[1;", "it is no JSON from line 1, column 3 on");
        check("{}", "it does not hold what it should, at line 1, column 0");
    }
}
