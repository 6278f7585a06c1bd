//! The folds of a walk forward through time.
//!
//! The first `train` and `validation` shares of the distinct times come before the first fold;
//! what is left is cut into `folds` equal blocks, each tested by one fold. A fold validates on the
//! times right before its block, as many as the validation share has, and learns from everything
//! before those (`expanding`) or from as many times as the first fold does (`rolling`).

use crate::{
    error::NormalizeError,
    settings::{SplitSettings, Walk},
    split::Borders,
};

/// The borders of every fold, as positions among `times` distinct times.
pub(crate) fn borders(
    times: usize,
    settings: &SplitSettings,
) -> Result<Vec<Borders>, NormalizeError> {
    let share = |share: f64| (share * times as f64).round() as usize;
    let train = share(settings.train);
    let first = share(settings.train + settings.validation).clamp(train, times);
    let (validation, left, folds) = (first - train, times - first, settings.folds);
    if folds == 0 || left < folds {
        return Err(NormalizeError::TooManyFolds { folds, left, times });
    }
    // In u128, so that no number of times overflows.
    let block = |fold: usize| first + (fold as u128 * left as u128 / folds as u128) as usize;
    Ok((0..folds)
        .map(|fold| {
            let test_start = block(fold);
            let train_end = test_start - validation;
            let train_start = match settings.walk {
                Walk::Expanding => 0,
                Walk::Rolling => train_end - train,
            };
            let test_end = (fold + 1 < folds).then(|| block(fold + 1));
            Borders { train_start, train_end, test_start, test_end }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(walk: Walk, expected: &[[usize; 4]]) {
        let settings =
            SplitSettings { train: 0.4, validation: 0.1, folds: 3, walk, ..Default::default() };
        let found: Vec<_> = borders(20, &settings)
            .unwrap()
            .into_iter()
            .map(|b| [b.train_start, b.train_end, b.test_start, b.test_end.unwrap_or(20)])
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn folds_tile_what_is_left_and_learn_from_before_it() {
        check(Walk::Expanding, &[[0, 8, 10, 13], [0, 11, 13, 16], [0, 14, 16, 20]]);
        check(Walk::Rolling, &[[0, 8, 10, 13], [3, 11, 13, 16], [6, 14, 16, 20]]);
    }

    #[test]
    fn more_folds_than_times_are_refused_with_the_numbers() {
        let settings = SplitSettings { folds: 4, ..Default::default() };
        let error = borders(20, &settings).unwrap_err().to_string();
        assert!(error.contains("leave 3 of 20 times to test on; use at most 3 folds"), "{error}");
    }
}
