//! A made-up table with something to learn in it, for trying millstream without any data.
//!
//! Columns: `symbol`, `trade_date` (business days from 2015-01-05), `close_pct`, `f001`, `f002`, …
//! Two hidden AR(1) processes, one for the market and one per series, drive everything: a feature
//! is a noisy mix of them, a few steps late and in a unit of its own, and `close_pct` follows from
//! their values one step before. A model that averages over features and time sees through the
//! noise; the last value of any one column does not.
//!
//! Every series has its own random stream, and only `+`, `-`, `*` and `/` are used (no `exp`, no
//! `ln`, whose last bit differs between machines), so a seed means one table everywhere.

mod size;

use crate::{
    LoadError, SourceSettings,
    columns::{Content, Selection, TableColumn},
    filter::RowFilter,
    progress::ProgressReporter,
    request::Request,
    rows::RowStore,
    sources::ReadSource,
    table::Table,
    time::{DAY, days_from_civil},
};
use millstream_data::{
    TimeKind, available_memory,
    table::{ONE_SERIES, panel_value},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use serde::{Deserialize, Serialize};
use size::Size;
use std::{num::NonZeroUsize, sync::Arc};

/// How much of a hidden value is left one step later.
const PERSISTENCE: f64 = 0.9;
/// Keeps the variance of the hidden processes at 1: the square root of `1 - PERSISTENCE²`.
const INNOVATION: f64 = 0.435_889_894_354_067_4;
/// Noise of the target; what it leaves to learn is about two thirds of the variance.
const TARGET_NOISE: f64 = 0.8;
/// Steps for the hidden processes to forget where they began.
const BURN_IN: usize = 60;
/// Features show hidden values up to this many steps late.
const LAGS: usize = 3;
/// A short series has fewer rows than this.
const SHORT_ROWS: usize = 40;

/// Random streams of one seed; each series takes two, from `SERIES` on.
mod stream {
    pub(super) const MARKET: u64 = 0;
    pub(super) const COLUMNS: u64 = 1;
    pub(super) const SERIES: u64 = 2;
}

/// What the generated table looks like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenerateSettings {
    /// Number of series. Default: 500.
    pub series: NonZeroUsize,
    /// Business days the table spans; a series has at most this many rows. Default: 220.
    pub rows: NonZeroUsize,
    /// Feature columns besides the target `close_pct`. Default: 16.
    pub features: NonZeroUsize,
    /// Share of the feature values that are missing, 0 to 1. Default: 0.005.
    pub missing: f64,
    /// Share of the series with fewer than 40 rows, 0 to 1. Default: 0.04.
    pub short: f64,
    /// Seed; the same seed gives the same table on any machine. Default: 7.
    pub seed: u64,
}

impl Default for GenerateSettings {
    fn default() -> Self {
        let size = |n| NonZeroUsize::new(n).expect("the defaults are not zero");
        GenerateSettings {
            series: size(500),
            rows: size(220),
            features: size(16),
            missing: 0.005,
            short: 0.04,
            seed: 7,
        }
    }
}

/// A made-up table.
pub(crate) struct Generate;

impl ReadSource for Generate {
    fn keys(&self) -> &'static [&'static str] {
        &["generate"]
    }

    fn check(&self, settings: &SourceSettings) -> Result<(), LoadError> {
        check_share("generate.missing", settings.generate.missing)?;
        check_share("generate.short", settings.generate.short)
    }

    fn read(
        &self,
        request: &Request<'_>,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Table, LoadError> {
        let Request { settings, required, .. } = *request;
        let made = &settings.generate;
        let symbols = (!settings.symbols.is_empty()).then_some(settings.symbols.len());
        let is_wide = settings.features.iter().any(|feature| feature == "*");
        Size::new(made, symbols, is_wide).check(available_memory())?;
        let table = columns(made.features.get());
        let place = "the generated table";
        let chosen = Selection::choose(&table, settings, required, place)?;
        let filter = RowFilter::new(settings)?;
        filter.check_kind(TimeKind::Date)?;

        let generator = Generator::new(settings);
        let mut rows = RowStore::new(chosen.values.len());
        let (mut known, mut made_rows) = (Vec::new(), 0_u64);
        let digits = (made.series.get() - 1).to_string().len().max(3);
        for index in 0..made.series.get() {
            let symbol = format!("S{index:0digits$}");
            let name = if chosen.series.is_some() { &symbol } else { ONE_SERIES };
            if filter.chooses_series() {
                known.push(name.to_owned());
            }
            if !filter.admits_series(name) {
                continue;
            }
            let code = rows.code(name);
            generator.series(index as u64, |time, values| {
                if filter.admits_time(time) {
                    let row = rows.push(code, time);
                    for (cell, column) in row.iter_mut().zip(&chosen.values) {
                        *cell = values[column - FIRST_VALUE];
                    }
                }
                // To look at the clock costs as much as some of the values.
                made_rows += 1;
                if made_rows.is_multiple_of(256) { reporter.check_interrupt() } else { Ok(()) }
            })?;
            reporter.rows(rows.rows())?;
        }
        Ok(Table {
            place: place.to_owned(),
            series_column: settings.series_column().map(str::to_owned),
            time_column: settings.time.clone(),
            time_kind: TimeKind::Date,
            columns: chosen.value_names(&table),
            kinds: chosen.value_kinds(&table),
            inputs: chosen.inputs,
            rows: vec![rows],
            filter: Arc::new(filter),
            known,
            times: None,
            left_out: chosen.left_out,
            state: None,
        })
    }
}

/// Position of `close_pct`, after the two keys.
const FIRST_VALUE: usize = 2;

fn columns(features: usize) -> Vec<TableColumn> {
    let first = [
        TableColumn::new("symbol", "text", Content::Other),
        TableColumn::new("trade_date", "date", Content::Other),
        TableColumn::new("close_pct", "number", Content::Numbers),
    ];
    let feature = |n| TableColumn::new(format!("f{n:03}"), "number", Content::Numbers);
    let features = (1..=features).map(feature);
    first.into_iter().chain(features).collect()
}

fn check_share(key: &'static str, share: f64) -> Result<(), LoadError> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    let expected = "a share lies between 0 and 1";
    Err(LoadError::Setting { key, value: share.to_string(), expected })
}

/// What all series share.
struct Generator {
    seed: u64,
    days: usize,
    missing: f64,
    short: f64,
    market: Vec<f64>,
    features: Vec<Feature>,
}

/// How a column shows the hidden values.
struct Feature {
    own: f64,
    market: f64,
    lag: usize,
    noise: f64,
    scale: f64,
    offset: f64,
}

impl Generator {
    fn new(settings: &SourceSettings) -> Self {
        let made = &settings.generate;
        let days = made.rows.get();
        let mut random = Random::new(made.seed, stream::COLUMNS);
        let features = (0..made.features.get()).map(|column| Feature::new(column, &mut random));
        Generator {
            seed: made.seed,
            days,
            missing: made.missing,
            short: made.short,
            features: features.collect(),
            market: hidden(&mut Random::new(made.seed, stream::MARKET), days),
        }
    }

    /// Hands out each row of one series: its time, the target and the features.
    fn series<E>(
        &self,
        index: u64,
        mut row: impl FnMut(i64, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut random = Random::new(self.seed, stream::SERIES + 2 * index);
        // Gaps have a stream of their own: with more of them the other values stay as they were.
        let mut gaps = Random::new(self.seed, stream::SERIES + 2 * index + 1);
        let (first, last) = self.life(&mut gaps);
        let own = hidden(&mut random, self.days);
        let mut values = Vec::with_capacity(1 + self.features.len());
        for day in 0..self.days {
            let now = LAGS + day;
            values.clear();
            let target =
                target(own[now - 1], self.market[now - 1]) + TARGET_NOISE * random.normal();
            // A model cannot learn from a gap in the target, so there are fewer of those.
            let gone = gaps.share() < self.missing / 5.0;
            values.push(if gone { f32::NAN } else { panel_value(target) });
            for feature in &self.features {
                let then = now - feature.lag;
                let seen = feature.own * own[then]
                    + feature.market * self.market[then]
                    + feature.noise * random.normal();
                let gone = gaps.share() < self.missing;
                let value = feature.offset + feature.scale * seen;
                values.push(if gone { f32::NAN } else { panel_value(value) });
            }
            if (first..last).contains(&day) {
                row(business_day(day), &values)?;
            }
        }
        Ok(())
    }

    /// First day, and the day after the last.
    fn life(&self, random: &mut Random) -> (usize, usize) {
        if random.share() < self.short {
            let rows = (5 + random.below(SHORT_ROWS - 5)).min(self.days);
            let first = random.below(self.days - rows + 1);
            return (first, first + rows);
        }
        let late = random.below(self.days / 20 + 1);
        let early = random.below(self.days / 40 + 1);
        (late, self.days - early)
    }
}

impl Feature {
    fn new(column: usize, random: &mut Random) -> Self {
        let scale = [1.0, 0.01, 100.0, 10_000.0][column % 4] * (0.5 + random.share());
        Feature {
            own: 0.3 + 0.7 * random.share(),
            market: 1.2 * random.share() - 0.4,
            lag: random.below(LAGS + 1),
            noise: 0.7 + 0.7 * random.share(),
            scale,
            offset: 5.0 * scale * (random.share() - 0.3),
        }
    }
}

/// What the hidden values make of the next target, in percent.
fn target(own: f64, market: f64) -> f64 {
    let mix = 0.8 * own + 0.6 * market;
    let both = own * market;
    0.9 * mix + 0.5 * mix / (1.0 + mix.abs()) + 0.5 * both / (1.0 + both.abs())
}

/// A hidden process: `LAGS` values of history, then one a day.
fn hidden(random: &mut Random, days: usize) -> Vec<f64> {
    let mut value = 0.0;
    let mut step = || {
        value = PERSISTENCE * value + INNOVATION * random.normal();
        value
    };
    (0..BURN_IN).for_each(|_| _ = step());
    (0..LAGS + days).map(|_| step()).collect()
}

/// Microseconds of the business day with this number, from Monday 2015-01-05 on.
fn business_day(number: usize) -> i64 {
    let number = i64::try_from(number).expect("a table has fewer than 2^63 days");
    (days_from_civil(2015, 1, 5) + number / 5 * 7 + number % 5) * DAY
}

/// Portable random numbers.
struct Random(ChaCha8Rng);

impl Random {
    fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut random = ChaCha8Rng::from_seed(key);
        random.set_stream(stream);
        Random(random)
    }

    /// Uniform in [0, 1).
    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below `limit`, which is small enough that the bias of the product does not matter.
    fn below(&mut self, limit: usize) -> usize {
        (self.share() * limit as f64) as usize
    }

    /// Nearly normal, with mean 0 and variance 1: a sum of eight uniform numbers (Irwin-Hall),
    /// which needs no logarithm. It never exceeds 4.9.
    fn normal(&mut self) -> f64 {
        const SPREAD: f64 = 0.816_496_580_927_726; // the square root of 8/12
        let sum: u64 = (0..2)
            .map(|_| self.0.next_u64())
            .flat_map(|word| [word, word >> 16, word >> 32, word >> 48])
            .map(|word| word & 0xffff)
            .sum();
        ((sum as f64 + 4.0) / 65_536.0 - 4.0) / SPREAD
    }
}

#[cfg(test)]
mod tests;
