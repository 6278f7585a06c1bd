//! Decimal numbers to the nearest `f64`.
//!
//! PostgreSQL's `numeric` and Arrow's decimals both end here, so that the same number gives the
//! same bits from every source: first the nearest `f64`, as a CSV parser would, then `f32`.

/// Powers of ten that an `f64` holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The `f64` nearest to `mantissa * 10^exponent`.
#[inline]
#[must_use]
pub fn nearest(mantissa: u128, exponent: i32) -> f64 {
    let power = EXACT.get(exponent.unsigned_abs() as usize);
    match power {
        // Both operands are exact, so IEEE division and multiplication round just once.
        Some(power) if mantissa <= 1 << 53 && exponent < 0 => mantissa as f64 / power,
        Some(power) if mantissa <= 1 << 53 => mantissa as f64 * power,
        _ => parse(&format!("{mantissa}e{exponent}")),
    }
}

/// The `f64` nearest to a number in the form digits `e` exponent.
///
/// # Panics
/// When the text is of another form.
#[must_use]
pub fn parse(text: &str) -> f64 {
    text.parse().expect("digits, an e and an exponent are a number")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_parses(
            mantissa in prop_oneof![0_u128..1 << 60, any::<u128>()],
            exponent in -60..60,
        ) {
            prop_assert_eq!(nearest(mantissa, exponent), parse(&format!("{mantissa}e{exponent}")));
        }
    }
}
