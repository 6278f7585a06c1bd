//! Whether a value fits its key: text becomes what the key takes, and what does not fit is said in
//! the words of the settings file.

use super::{keys, origin::Origin, shape::Shape};
use toml::Value;

/// Longer values are cut where an error shows them.
const SHOWN: usize = 80;

/// A value that does not fit.
#[derive(Debug)]
pub(super) struct Misfit {
    /// The setting, or one inside a list: `scale.groups[1].clip`.
    pub(super) key: String,
    pub(super) value: String,
    pub(super) problem: String,
}

/// What stands after `--set key=` or in an environment variable. Text is taken as it is where the
/// key takes text, unless it is in quotes; anything else is a TOML value.
pub(super) fn typed(shape: &Shape, text: &str) -> Value {
    let plain = || Value::String(text.to_owned());
    match shape {
        Shape::Text | Shape::Choice(_) if !text.starts_with(['"', '\'']) => plain(),
        _ => text.parse().unwrap_or_else(|_| plain()),
    }
}

/// The value as `shape` wants it.
pub(super) fn fit(
    key: &str,
    shape: &Shape,
    value: Value,
    origin: &Origin,
) -> Result<Value, Misfit> {
    let misfit = |value: &Value, problem: String| {
        Err(Misfit { key: key.to_owned(), value: shown(key, value), problem })
    };
    match (shape, value) {
        (Shape::Several, value)
        | (Shape::Text, value @ Value::String(_))
        | (Shape::Flag, value @ Value::Boolean(_))
        | (Shape::Number, value @ Value::Integer(_)) => Ok(value),
        // Times may be dates, timestamps or whole numbers: quotes around them say nothing more.
        (Shape::Text, Value::Datetime(time)) => Ok(Value::String(time.to_string())),
        (Shape::Text, Value::Integer(number)) => Ok(Value::String(number.to_string())),
        (Shape::Text, value) => misfit(&value, format!("must be text{}", quotes(origin))),
        (Shape::Choice(words), Value::String(word)) if words.contains(&word.as_str()) => {
            Ok(Value::String(word))
        }
        (Shape::Choice(words), value) => {
            misfit(&value, format!("is not one of: {}", words.join(", ")))
        }
        (Shape::Number, Value::Float(number)) if number.is_finite() => Ok(Value::Float(number)),
        (Shape::Number, value) => misfit(&value, format!("must be a number{}", unquoted(&value))),
        (&Shape::Whole { least, most }, Value::Integer(number))
            if u64::try_from(number).is_ok_and(|number| (least..=most).contains(&number)) =>
        {
            Ok(Value::Integer(number))
        }
        (&Shape::Whole { least, most }, value) => {
            let least = if least == 0 { "not below 0" } else { "above 0" };
            let over = matches!(value, Value::Integer(number) if number > 0);
            let most = if over { format!(", at most {most}") } else { String::new() };
            misfit(&value, format!("must be a whole number {least}{most}{}", unquoted(&value)))
        }
        (Shape::Flag, value) => {
            misfit(&value, format!("must be true or false{}", unquoted(&value)))
        }
        (Shape::List(element), Value::Array(items)) => {
            let element = |(i, item)| fit(&format!("{key}[{}]", i + 1), element, item, origin);
            items.into_iter().enumerate().map(element).collect::<Result<_, _>>().map(Value::Array)
        }
        (Shape::List(element), value) => misfit(&value, how_to_list(key, element, &value, origin)),
        (Shape::Section(_), Value::Table(table)) => {
            let field = |(name, value): (String, Value)| {
                let path = format!("{key}.{name}");
                match shape.get(&name) {
                    Some(shape) => Ok((name, fit(&path, shape, value, origin)?)),
                    None => {
                        let problem = format!("is unknown; {}", keys::hint(&path));
                        Err(Misfit { value: shown(&path, &value), key: path, problem })
                    }
                }
            };
            table.into_iter().map(field).collect::<Result<_, _>>().map(Value::Table)
        }
        (Shape::Section(keys), value) => {
            let keys: Vec<_> = keys.iter().map(|(name, _)| *name).collect();
            misfit(&value, format!("must be a table with some of: {}", keys.join(", ")))
        }
    }
}

/// A value as an error shows it: in one line, not too long, without any password.
pub(super) fn shown(key: &str, value: &Value) -> String {
    let text = match value {
        // Not three hundred zeros.
        Value::Float(number) if number.is_finite() => format!("{number:?}"),
        value => value.to_string().replace(['\n', '\r'], " "),
    };
    let holds_url = key.starts_with("source.url") || (key == "source" && text.contains("url"));
    if holds_url {
        return "(not shown)".to_owned();
    }
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn quotes(origin: &Origin) -> &'static str {
    if matches!(origin, Origin::File { .. }) { ": write it in quotes" } else { "" }
}

fn unquoted(value: &Value) -> &'static str {
    let Value::String(text) = value else { return "" };
    let number =
        matches!(text.parse(), Ok(Value::Integer(_) | Value::Float(_) | Value::Boolean(_)));
    if number { ", without quotes" } else { "" }
}

fn how_to_list(key: &str, element: &Shape, value: &Value, origin: &Origin) -> String {
    if let Shape::Section(_) = element {
        return format!("must be a list of tables: write [[{key}]] above each");
    }
    match value {
        Value::String(text) if text.trim_start().starts_with('[') => {
            let example = Value::Array(vec![Value::String("a".into()), Value::String("b".into())]);
            format!("is no list: write one like {}", origin.assignment(key, &example))
        }
        value => {
            let list = Value::Array(vec![value.clone()]);
            format!("must be a list: write {}", origin.assignment(key, &list))
        }
    }
}
