//! Numbers and counts as a person reads them.

use millstream_data::{WindowCounts, list_names};
use std::path::Path;

/// A path as a word of a shell, for commands that a person copies.
#[must_use]
pub fn shell_word(path: &Path) -> String {
    let word = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// 1234567 as `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Series that a line names.
const NAMED: usize = 5;

/// How many windows and series there would be besides, and why there are not; `None` when all are
/// there. `short_series` are the names of those that are too short, as far as they are known.
pub(crate) fn left_out(counts: &WindowCounts, short_series: &[String]) -> Option<String> {
    let windows = |count| if count == 1 { "window" } else { "windows" };
    let named = match short_series {
        [] => String::new(),
        names => format!(" ({})", list_names(names, NAMED)),
    };
    let too_short = &format!("too short{named}")[..];
    let reasons = [
        (counts.missing_target, windows(counts.missing_target), "with a missing target"),
        (counts.missing_reference, windows(counts.missing_reference), "with a missing reference"),
        (counts.missing_input, windows(counts.missing_input), "with a missing input"),
        (counts.across_border, windows(counts.across_border), "across a border of the parts"),
        (counts.embargoed, windows(counts.embargoed), "in an embargo"),
        (counts.outside, windows(counts.outside), "outside the parts"),
        (counts.short_series, "series", too_short),
    ];
    let reasons = reasons.into_iter().filter(|(count, ..)| *count > 0);
    let reasons: Vec<String> =
        reasons.map(|(count, what, why)| format!("{} {what} {why}", grouped(count))).collect();
    (!reasons.is_empty()).then(|| format!("left out: {}", reasons.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_named_where_there_is_some() {
        assert_eq!(left_out(&WindowCounts { train: 9, ..WindowCounts::default() }, &[]), None);
        let some =
            WindowCounts { missing_input: 1_500, short_series: 2, ..WindowCounts::default() };
        let expected = "left out: 1,500 windows with a missing input, 2 series too short";
        assert_eq!(left_out(&some, &[]).as_deref(), Some(expected));
        let names: Vec<String> = (0..7).map(|number| format!("s{number}")).collect();
        let short = WindowCounts { short_series: 7, ..WindowCounts::default() };
        let expected = "left out: 7 series too short (s0, s1, s2, s3, s4 and 2 more)";
        assert_eq!(left_out(&short, &names).as_deref(), Some(expected));
        let all = WindowCounts {
            missing_target: 1,
            missing_reference: 2,
            missing_input: 3,
            across_border: 4,
            embargoed: 5,
            outside: 6,
            short_series: 7,
            ..WindowCounts::default()
        };
        let expected = "left out: 1 window with a missing target, 2 windows with a missing \
                        reference, 3 windows with a missing input, 4 windows across a border of the \
                        parts, 5 windows in an embargo, 6 windows outside the parts, 7 series too \
                        short";
        assert_eq!(left_out(&all, &[]).as_deref(), Some(expected));
    }

    #[test]
    fn paths_are_words_of_a_shell() {
        let check = |path: &str, expected: &str| assert_eq!(shell_word(Path::new(path)), expected);
        check("runs/2026-11-18_14-20-05", "runs/2026-11-18_14-20-05");
        check("my runs/it's", r"'my runs/it'\''s'");
    }

    #[test]
    fn numbers_are_grouped_by_three() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected);
        }
    }
}
