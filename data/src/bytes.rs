//! [`Bytes`]: an amount of memory as a person reads it.

use std::fmt;

/// So many bytes, shown as `4.3 GB`.
///
/// ```
/// use millstream_data::Bytes;
///
/// assert_eq!(Bytes(4_320_000_000).to_string(), "4.3 GB");
/// assert_eq!(Bytes(999).to_string(), "999 B");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u128);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut size, mut unit) = (self.0 as f64, "B");
        for larger in ["kB", "MB", "GB", "TB", "PB", "EB"] {
            // What would be rounded to four digits is one of the next unit.
            if size < 999.95 {
                break;
            }
            (size, unit) = (size / 1e3, larger);
        }
        match unit {
            "B" => write!(f, "{size} B"),
            _ if size < 999.95 => write!(f, "{size:.1} {unit}"),
            // Nobody has it, so nobody needs the digits.
            _ => write!(f, "more than 1000 {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1_000, "1.0 kB"),
            (999_960, "1.0 MB"),
            (25_274_000_000, "25.3 GB"),
            (u128::MAX, "more than 1000 EB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), expected);
        }
    }
}
