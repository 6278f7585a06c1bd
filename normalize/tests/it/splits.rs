//! Splits and folds against lists of times, and series against their shares.

use crate::{
    cases::split,
    support::{Table, cuts, table},
};
use millstream_normalize::{Split, SplitBy, SplitPart, SplitSettings, Walk};
use proptest::prelude::*;

/// The times of training, validation and test.
type Times = [Vec<i64>; 3];

fn share(share: f64, times: &[i64]) -> usize {
    (share * times.len() as f64).round() as usize
}

fn slice(times: &[i64], from: usize, until: usize) -> Vec<i64> {
    times.iter().copied().take(until).skip(from).collect()
}

/// `None` where the borders are out of order or outside the data.
fn single(settings: &SplitSettings, times: &[i64]) -> Option<Times> {
    let (first, last) = (times[0], times[times.len() - 1]);
    let date = |text: &Option<String>| text.as_ref().map(|text| text.parse::<i64>().unwrap());
    let before = |border: i64| times.iter().filter(|time| **time < border).count();
    let train = match date(&settings.train_end) {
        Some(border) if border <= first || border > last => return None,
        Some(border) => before(border),
        None => share(settings.train, times),
    };
    let validation = match date(&settings.validation_end) {
        Some(border) if border > last => return None,
        // It must hold at least one time.
        Some(border) if before(border) <= train => return None,
        Some(border) => before(border),
        None if settings.train_end.is_none() => share(settings.train + settings.validation, times),
        None => train + share(settings.validation, times),
    };
    let end = match date(&settings.test_end) {
        Some(border) if validation >= times.len() || border <= times[validation] => return None,
        Some(border) => before(border),
        None => times.len(),
    };
    let gap = settings.embargo;
    Some([
        slice(times, 0, train),
        slice(times, train + gap, validation),
        slice(times, validation + gap, end),
    ])
}

/// Every fold of a walk forward; `None` where there are too few times for them.
fn folds(settings: &SplitSettings, times: &[i64]) -> Option<Vec<Times>> {
    let train = share(settings.train, times);
    let first = share(settings.train + settings.validation, times).max(train);
    let left = times.len().checked_sub(first)?;
    if left < settings.folds {
        return None;
    }
    let block = |fold: usize| first + fold * left / settings.folds;
    let fold = |fold: usize| {
        let (test, end) = (block(fold), block(fold + 1));
        let learned = test - (first - train);
        let start = if settings.walk == Walk::Rolling { learned - train } else { 0 };
        let gap = settings.embargo;
        [
            slice(times, start, learned),
            slice(times, learned + gap, test),
            slice(times, test + gap, end),
        ]
    };
    Some((0..settings.folds).map(fold).collect())
}

fn parts(split: &Split) -> [&SplitPart; 3] {
    [split.train().part(), &split.validation, &split.test]
}

fn check(split: &Split, expected: &Times, times: &[i64]) -> Result<(), TestCaseError> {
    for (part, expected) in parts(split).into_iter().zip(expected) {
        let inside = times.iter().copied().filter(|time| part.span.contains(*time));
        prop_assert_eq!(&inside.collect::<Vec<_>>(), expected, "{:?}", split);
    }
    Ok(())
}

fn check_series(
    table: &Table,
    settings: &SplitSettings,
    split: &Split,
) -> Result<(), TestCaseError> {
    let count = table.series.len();
    let members =
        |part: &SplitPart| (0..count as u32).filter(|code| part.has_series(*code)).count();
    for code in 0..count as u32 {
        let homes = parts(split).into_iter().filter(|part| part.has_series(code)).count();
        prop_assert_eq!(homes, 1, "series {} is in one part", code);
    }
    let train = ((settings.train * count as f64).round() as usize).max(1);
    let both = ((settings.train + settings.validation) * count as f64).round() as usize;
    let validation = both.clamp(train, count) - train;
    prop_assert_eq!(parts(split).map(members), [train, validation, count - train - validation]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn parts_are_the_times_or_the_series_that_the_settings_say(
        (table, settings) in table().prop_flat_map(|table| {
            let settings = split(&table);
            (Just(table), settings)
        }),
        cuts in cuts(),
    ) {
        let times = table.times();
        prop_assume!(!times.is_empty());
        let panel = table.panel(&cuts);
        let found = Split::new(&panel, &settings);
        if settings.by == SplitBy::Series {
            return check_series(&table, &settings, &found.unwrap());
        }
        if settings.folds == 0 {
            let expected = single(&settings, &times);
            prop_assert_eq!(found.is_ok(), expected.is_some(), "{:?}: {:?}", found, times);
            return expected.map_or(Ok(()), |expected| check(&found.unwrap(), &expected, &times));
        }
        let expected = folds(&settings, &times);
        let all = Split::walk_forward(&panel, &settings);
        prop_assert_eq!(all.is_ok(), expected.is_some(), "{:?}", all);
        let (Ok(all), Some(expected)) = (all, expected) else { return Ok(()) };
        prop_assert_eq!(all.len(), expected.len());
        prop_assert_eq!(&found.unwrap(), &all[settings.fold.get() - 1]);
        for (split, expected) in all.iter().zip(&expected) {
            check(split, expected, &times)?;
        }
    }
}
