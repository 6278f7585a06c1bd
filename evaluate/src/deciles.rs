//! What came of the tenths of the forecasts of a time. Which of equal forecasts is the higher nobody can say: each
//! counts as the mean of what came of them all, so that of a constant forecast all tenths are alike.

use crate::{
    correlation::mean,
    evaluation::{Decile, DecileOfTime, Deciles},
    forecasts::Forecasts,
    sections::Sections,
};
use millstream_data::TimeKind;
use std::cmp::Ordering;

const TENTHS: usize = 10;

/// Tenths, target by target.
pub(crate) struct DecileSums<'a> {
    forecasts: &'a Forecasts,
    sections: &'a Sections,
    found: Deciles,
}

impl<'a> DecileSums<'a> {
    pub(crate) fn new(forecasts: &'a Forecasts, sections: &'a Sections) -> Self {
        DecileSums { forecasts, sections, found: Deciles::default() }
    }

    pub(crate) fn add_target(&mut self, number: usize, outcomes: &[f64]) {
        let Forecasts { columns, keys, targets, time_kind, .. } = self.forecasts;
        let (target, values) = (&columns.targets[number].outcome, &targets[number]);
        let kind = time_kind.unwrap_or(TimeKind::Integer);
        let first = self.found.by_time.len();
        for section in &self.sections.sections {
            let mut rows: Vec<usize> = self.sections.rows(section).collect();
            rows.retain(|row| !outcomes[*row].is_nan());
            if rows.is_empty() {
                continue;
            }
            if rows.len() < TENTHS {
                self.found.too_few += 1;
                continue;
            }
            // By their size alone: 0 and -0 are equal.
            let size = |row: usize| values.forecasts[row];
            let order =
                |a: usize, b: usize| size(a).partial_cmp(&size(b)).unwrap_or(Ordering::Equal);
            // Then by what came, so that the order of the table is nowhere to be seen.
            rows.sort_by(|&a, &b| order(a, b).then(outcomes[a].total_cmp(&outcomes[b])));
            let mut came = Vec::with_capacity(rows.len());
            for tied in rows.chunk_by(|&a, &b| size(a) == size(b)) {
                let sum: f64 = tied.iter().map(|row| outcomes[*row]).sum();
                came.resize(came.len() + tied.len(), sum / tied.len() as f64);
            }
            let said: Vec<f64> = rows.iter().map(|row| size(*row)).collect();
            for decile in 0..TENTHS {
                let end = |of: usize| (of * rows.len()).div_ceil(TENTHS);
                let places = end(decile)..end(decile + 1);
                let mean_of =
                    |of: &[f64]| of[places.clone()].iter().sum::<f64>() / places.len() as f64;
                self.found.by_time.push(DecileOfTime {
                    time: kind.format(section.time),
                    step: self.sections.steps[section.step as usize],
                    fold: keys.folds.get(rows[0]).copied(),
                    target: target.clone(),
                    decile: decile + 1,
                    count: places.len() as u64,
                    mean_forecast: mean_of(&said),
                    mean_outcome: mean_of(&came),
                });
            }
        }
        let of_target = &self.found.by_time[first..];
        for decile in 1..=TENTHS {
            let all: Vec<&DecileOfTime> =
                of_target.iter().filter(|one| one.decile == decile).collect();
            let mean_of = |of: fn(&DecileOfTime) -> f64| {
                mean(&all.iter().map(|one| of(one)).collect::<Vec<f64>>())
            };
            let (said, came) = (mean_of(|one| one.mean_forecast), mean_of(|one| one.mean_outcome));
            if let (Some(mean_forecast), Some(mean_outcome)) = (said, came) {
                self.found.overall.push(Decile {
                    target: target.clone(),
                    decile,
                    count: all.iter().map(|one| one.count).sum(),
                    times: all.len() as u64,
                    mean_forecast,
                    mean_outcome,
                });
            }
        }
    }

    pub(crate) fn finish(self) -> Deciles {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        columns::ColumnNames,
        test_tables::{batch, names},
    };

    #[test]
    fn tenths_are_of_the_forecasts_of_a_time() {
        let row = |time: usize, series: usize, forecast: f64, outcome: f64| {
            format!("s{series:02},{time},{forecast},{outcome}\n")
        };
        // Twelve series at 1, of which the lowest tenths have two each; ten at 2, all alike; nine at 3.
        let mut text = "id,date,pred,y\n".to_owned();
        text.extend((0..12).map(|s| row(1, s, -(s as f64), s as f64)));
        text.extend((0..10).map(|s| row(2, s, 1.0, s as f64)));
        text.extend((0..9).map(|s| row(3, s, 1.0, 100.0)));
        let rows = batch(&text);
        let mut forecasts = Forecasts::new(&names(&rows), &ColumnNames::default()).unwrap();
        forecasts.add(&rows).unwrap();
        let sections = Sections::new(&forecasts).unwrap();
        let mut sums = DecileSums::new(&forecasts, &sections);
        sums.add_target(0, &forecasts.targets[0].outcomes);
        let found = sums.finish();
        assert_eq!((found.too_few, found.by_time.len()), (1, 20));
        let of_first: Vec<(u64, f64)> =
            found.by_time[..10].iter().map(|one| (one.count, one.mean_outcome)).collect();
        assert_eq!(of_first[0], (2, 10.5), "the lowest forecasts");
        assert_eq!(of_first[9], (1, 0.0));
        assert_eq!(of_first.iter().map(|one| one.0).sum::<u64>(), 12);
        let lowest = &found.overall[0];
        assert_eq!((lowest.count, lowest.times), (3, 2));
        assert_eq!((lowest.mean_outcome, lowest.mean_forecast), (7.5, (-10.5 + 1.0) / 2.0));
        let of_equal: Vec<f64> = found.by_time[10..].iter().map(|one| one.mean_outcome).collect();
        assert_eq!(of_equal, [4.5; 10], "no tenth of equal forecasts is better than another");
    }
}
