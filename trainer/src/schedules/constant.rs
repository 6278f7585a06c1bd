//! The full rate throughout.

use super::RateOfStep;

pub(super) struct Constant;

impl RateOfStep for Constant {
    fn rate(&self, full: f64, _: u64, _: u64) -> f64 {
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_changes() {
        assert_eq!([0, 50, 100].map(|step| Constant.rate(0.1, step, 100)), [0.1; 3]);
    }
}
