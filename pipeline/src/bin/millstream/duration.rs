//! A length of time as a person writes it: `90s`, `30m`, `2h`, `1d12h`.

use std::time::Duration;

/// Reads one.
///
/// # Errors
/// What is wrong with it, for the usage message.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write it like 90s, 30m, 2h or 1d12h".to_owned();
    let (mut seconds, mut number, mut last) = (0_u64, String::new(), u64::MAX);
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let unit = match letter {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return Err(wrong()),
        };
        let count: u64 = number.parse().map_err(|_| wrong())?;
        // From large to small: what is the other way round is a slip of the pen.
        if unit >= last {
            return Err(wrong());
        }
        last = unit;
        number.clear();
        let more = count.checked_mul(unit).and_then(|more| seconds.checked_add(more));
        seconds = more.ok_or("it is too long")?;
    }
    match seconds {
        // Seconds without their unit might be meant as hours.
        _ if !number.is_empty() || last == u64::MAX => Err(wrong()),
        0 => Err("there is no time in it".to_owned()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<u64, &str>) {
        let found = duration(text).map(|time| time.as_secs());
        assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn units_are_said_and_come_from_large_to_small() {
        check("90s", Ok(90));
        check("30m", Ok(1_800));
        check("2h", Ok(7_200));
        check("1d12h", Ok(129_600));
        check("1h0m30s", Ok(3_630));
        let wrong = Err("write it like 90s, 30m, 2h or 1d12h");
        for text in ["", "h", "90", "2 h", "2H", "1.5h", "-2h", "30m1h", "1h1h", "1h30", "2h "] {
            check(text, wrong);
        }
        check("0s", Err("there is no time in it"));
        check("0h0m", Err("there is no time in it"));
        check("99999999999999999d", Err("it is too long"));
        check("99999999999999999999s", wrong);
    }
}
