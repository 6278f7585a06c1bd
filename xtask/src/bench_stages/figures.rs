//! Figures as people read them.

/// A rate or an amount with three significant digits and a decimal prefix.
pub(crate) fn rate(value: f64, unit: &str) -> String {
    let unit = match unit {
        "bytes/s" => "B/s",
        "bytes" => "B",
        other => other,
    };
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let decimals = if scaled >= 99.95 {
        0
    } else if scaled >= 9.995 {
        1
    } else {
        2
    };
    // A prefix belongs to the short symbol of a unit, not to a word.
    let space = if unit.starts_with('B') || prefix.is_empty() { "" } else { " " };
    format!("{scaled:.decimals$} {prefix}{space}{unit}")
}

/// Text that may stand in a cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', r"\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits() {
        let check = |value: f64, unit: &str, expected: &str| {
            assert_eq!(rate(value, unit), expected);
        };
        check(1.234e9, "bytes/s", "1.23 GB/s");
        check(99.96e6, "items/s", "100 M items/s");
        check(12_340.0, "windows/s", "12.3 k windows/s");
        check(5.0, "items/s", "5.00 items/s");
        check(4.32e8, "bytes", "432 MB");
    }

    #[test]
    fn a_cell_ends_where_it_should() {
        assert_eq!(cell("a | b\nc"), r"a \| b c");
    }
}
