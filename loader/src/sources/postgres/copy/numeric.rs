//! PostgreSQL's `numeric` in binary form, to the nearest `f64`.

use crate::decimal;
use std::fmt::Write;

/// A `numeric`: how many base-10000 digits, the power of 10000 of the first, the sign, how many
/// decimals to show, and the digits.
pub(super) fn numeric(bytes: &[u8]) -> Option<f64> {
    let (head, digits) = bytes.split_first_chunk::<8>()?;
    let count = u16::from_be_bytes([head[0], head[1]]);
    let weight = i16::from_be_bytes([head[2], head[3]]);
    let negative = match u16::from_be_bytes([head[4], head[5]]) {
        0x0000 => false,
        0x4000 => true,
        0xc000 => return Some(f64::NAN),
        0xd000 => return Some(f64::INFINITY),
        0xf000 => return Some(f64::NEG_INFINITY),
        _ => return None,
    };
    let (digits, rest) = digits.as_chunks::<2>();
    if digits.len() != usize::from(count) || !rest.is_empty() {
        return None;
    }
    let digits = digits.iter().map(|digit| u16::from_be_bytes(*digit));
    if digits.clone().any(|digit| digit > 9999) {
        return None;
    }
    let exponent = 4 * (i32::from(weight) + 1 - i32::from(count));
    // Nine digits of four decimals are the most that always fit 128 bits.
    let size = if count <= 9 {
        decimal::nearest(digits.fold(0, |sum, digit| sum * 10_000 + u128::from(digit)), exponent)
    } else {
        let mut text = String::with_capacity(4 * usize::from(count) + 12);
        for digit in digits {
            write!(text, "{digit:04}").expect("a string takes all that is written");
        }
        write!(text, "e{exponent}").expect("a string takes all that is written");
        decimal::parse(&text)
    };
    Some(if negative { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numeric_bytes(sign: u16, weight: i16, digits: &[u16]) -> Vec<u8> {
        let count = u16::try_from(digits.len()).unwrap();
        let head = [count, weight.cast_unsigned(), sign, 0];
        head.iter().chain(digits).flat_map(|word| word.to_be_bytes()).collect()
    }

    fn check_numeric(sign: u16, weight: i16, digits: &[u16], expected: Option<f64>) {
        let found = numeric(&numeric_bytes(sign, weight, digits));
        assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{digits:?}");
    }

    #[test]
    fn numerics_are_the_nearest_float() {
        check_numeric(0, 0, &[], Some(0.0));
        check_numeric(0, 0, &[1, 5000], Some(1.5));
        check_numeric(0x4000, -1, &[1234, 5000], Some(-0.12345));
        check_numeric(0, 2, &[1], Some(1e8));
        check_numeric(0, 4, &[1, 2, 3, 4, 5], Some(1_0002_0003_0004_0005.0));
        check_numeric(0, -5, &[1; 12], Some(1.000_100_010_001e-20));
        check_numeric(0xd000, 0, &[], Some(f64::INFINITY));
        check_numeric(0xf000, 0, &[], Some(f64::NEG_INFINITY));
        check_numeric(0, 0, &[10_000], None);
        check_numeric(0x1234, 0, &[1], None);
        assert!(numeric(&numeric_bytes(0xc000, 0, &[])).unwrap().is_nan());
        assert_eq!(numeric(&[0; 7]), None);
        assert_eq!(numeric(&[0; 9]), None);
    }

    proptest! {
        #[test]
        fn integers_as_numerics_are_exact(digits in prop::collection::vec(0_u16..10_000, 1..12)) {
            let text: String = digits.iter().map(|digit| format!("{digit:04}")).collect();
            let weight = i16::try_from(digits.len()).unwrap() - 1;
            let expected: f64 = text.parse().unwrap();
            prop_assert_eq!(numeric(&numeric_bytes(0, weight, &digits)), Some(expected));
        }
    }
}
