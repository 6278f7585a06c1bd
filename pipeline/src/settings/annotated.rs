//! Settings as a file in which every value says where it came from.

use super::origin::Origin;
use std::fmt::Write as _;

/// Column in which the remarks begin, where values are short enough.
const REMARKS: usize = 40;

/// Writes settings so that they read back the same, each with its origin behind it.
pub(super) fn write<'a>(
    values: &toml::Table,
    origin: &dyn Fn(&str) -> Option<&'a Origin>,
) -> String {
    let mut text = String::new();
    write_section(&mut text, "", values, origin);
    text
}

fn write_section<'a>(
    text: &mut String,
    section: &str,
    values: &toml::Table,
    origin: &dyn Fn(&str) -> Option<&'a Origin>,
) {
    let path = |name: &str| match section {
        "" => name.to_owned(),
        section => format!("{section}.{name}"),
    };
    let (sections, settings): (Vec<_>, Vec<_>) =
        values.iter().partition(|(_, value)| value.is_table());
    if !settings.is_empty() {
        let gap = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{gap}[{section}]").expect("a string takes everything");
    }
    for (name, value) in settings {
        let remark = origin(&path(name)).map_or("default".to_owned(), Origin::to_string);
        let setting = format!("{name} = {value}");
        // A file's name may hold a line break, which would end the remark.
        let remark: String = remark.chars().filter(|c| !c.is_control()).collect();
        writeln!(text, "{setting:<REMARKS$} # {remark}").expect("a string takes everything");
    }
    for (name, value) in sections {
        let table = value.as_table().expect("they were chosen for it");
        write_section(text, &path(name), table, origin);
    }
}
