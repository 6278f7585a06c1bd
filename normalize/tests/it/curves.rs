//! The curves of a scaling from their definitions: logarithm, and the normal score of a rank.

use std::{cell::RefCell, collections::HashMap};

/// `sign(x) * ln(1 + |x|)`
pub(crate) fn log1p(x: f64) -> f64 {
    let log = x.abs().ln_1p();
    if x < 0.0 { -log } else { log }
}

/// The distribution function of the normal distribution, by its power series.
fn distribution(x: f64) -> f64 {
    let (mut term, mut sum, mut i) = (x, x, 1.0);
    while term.abs() > 1e-18 {
        i += 2.0;
        term *= x * x / i;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Where the distribution function reaches `p`. Slow to find, and asked for again and again.
fn normal_score(p: f64) -> f64 {
    thread_local!(static FOUND: RefCell<HashMap<u64, f64>> = RefCell::default());
    FOUND.with_borrow_mut(|found| *found.entry(p.to_bits()).or_insert_with(|| bisect(p)))
}

/// Tails end at one in ten million.
fn bisect(p: f64) -> f64 {
    let p = p.clamp(1e-7, 1.0 - 1e-7);
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if distribution(middle) < p { low = middle } else { high = middle }
    }
    low
}

/// The score of a value among evenly spaced quantiles: that of its place, where it is one of them;
/// the middle of the first and the last, where several are equal to it; a straight line between.
pub(crate) fn score(knots: &[f64], x: f64) -> f64 {
    let place = |i: usize| normal_score(i as f64 / (knots.len() - 1) as f64);
    if knots.len() < 2 {
        return 0.0;
    }
    let equal = |knot: &f64| *knot == x;
    if let (Some(first), Some(last)) = (knots.iter().position(equal), knots.iter().rposition(equal))
    {
        return (place(first) + place(last)) / 2.0;
    }
    match knots.iter().position(|knot| *knot > x) {
        Some(0) => place(0),
        None => place(knots.len() - 1),
        Some(above) => {
            let (low, high) = (knots[above - 1], knots[above]);
            let share = (x - low) / (high - low);
            place(above - 1) * (1.0 - share) + place(above) * share
        }
    }
}
