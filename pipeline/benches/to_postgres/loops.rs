//! The loops that people write, with prepared statements and binary values, each as good as it can be.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    network::Network,
    workload::{FORECASTS, LOOKBACK, ROWS, Work},
};
use postgres::{Client, Statement};

/// Forecasts that the loop by forecast is measured on.
const SOME: usize = 500;

/// Days as the crate has them: from 2000-01-01 on.
const DAY: &str = "trade_date - date '2000-01-01'";

/// A loop's statements.
struct Loop {
    client: Client,
    network: Network,
    rows: Statement,
    insert: Statement,
}

/// The rows of a series: their days, their targets, and what the model sees, row after row.
struct Rows {
    days: Vec<i32>,
    targets: Vec<f32>,
    values: Vec<f32>,
}

impl Loop {
    /// `which` says which rows of the series `$1`.
    fn new(work: &Work, which: &str) -> Result<Self, Failure> {
        let (mut client, network) = (work.client()?, Network::read(work)?);
        let columns: Vec<&str> = network.columns().collect();
        let columns = columns.join(", ");
        let rows = client.prepare(&format!(
            "SELECT {DAY}, close_pct, {columns} FROM {ROWS} WHERE symbol = $1 {which}"
        ))?;
        let insert = client.prepare(&format!(
            "INSERT INTO {FORECASTS} SELECT $1, date '2000-01-01' + time, 1, date '2000-01-01' + target_time, \
             forecast, outcome, 'lstm', $2, now() \
             FROM unnest($3::int[], $4::int[], $5::real[], $6::real[]) AS r (time, target_time, forecast, outcome) \
             ON CONFLICT (series, time, step, model) DO UPDATE SET target_time = EXCLUDED.target_time, \
             close_pct_forecast = EXCLUDED.close_pct_forecast, close_pct = EXCLUDED.close_pct, \
             run = EXCLUDED.run, created_at = EXCLUDED.created_at"
        ))?;
        Ok(Loop { client, network, rows, insert })
    }

    fn read(
        &mut self,
        symbol: &str,
        parameters: &[&(dyn postgres::types::ToSql + Sync)],
    ) -> Result<Rows, Failure> {
        let parameters = [&[&symbol as &(dyn postgres::types::ToSql + Sync)], parameters].concat();
        let found = self.client.query(&self.rows, &parameters)?;
        let mut rows = Rows { days: Vec::new(), targets: Vec::new(), values: Vec::new() };
        for row in &found {
            rows.days.push(row.get(0));
            rows.targets.push(row.get(1));
            for column in 0..row.len() - 2 {
                rows.values.push(self.network.scaled(column, row.get(column + 2)));
            }
        }
        Ok(rows)
    }

    /// Forecasts every window of the rows, and inserts what came of it; the outcome of the last is not known
    /// unless `after` says it.
    fn forecast(
        &mut self,
        symbol: &str,
        rows: &Rows,
        after: Option<(i32, f32)>,
    ) -> Result<(), Failure> {
        let forecasts = self.network.forecast(&rows.values);
        let time = &rows.days[LOOKBACK - 1..];
        let known = rows.days.iter().zip(&rows.targets).skip(LOOKBACK);
        let outcomes = known.map(|(day, target)| Some((*day, *target))).chain([after]);
        let (days, targets): (Vec<_>, Vec<_>) =
            outcomes.map(|it| (it.map(|it| it.0), it.map(|it| it.1))).unzip();
        self.client
            .execute(&self.insert, &[&symbol, &"loop", &time, &days, &forecasts, &targets])?;
        Ok(())
    }
}

/// A query, a forward and an insert for every series.
pub(crate) fn by_series(work: &Work) -> Result<Sample<()>, Failure> {
    let _guard = tch::no_grad_guard();
    let clock = Clock::start(Whose::Own)?;
    let mut all = Loop::new(work, "ORDER BY trade_date")?;
    for series in 0..work.series {
        let symbol = Work::symbol(series);
        let rows = all.read(&symbol, &[])?;
        all.forecast(&symbol, &rows, None)?;
    }
    clock.stop()
}

/// The same for every forecast: some of them, and as if that had been all.
pub(crate) fn by_forecast(work: &Work) -> Result<Sample<()>, Failure> {
    let _guard = tch::no_grad_guard();
    let which = "AND trade_date BETWEEN date '2025-01-01' + $2::int AND date '2025-01-01' + $3::int \
                 ORDER BY trade_date";
    let mut all = Loop::new(work, which)?;
    let clock = Clock::start(Whose::Own)?;
    for number in 0..SOME {
        let place = number * (work.forecasts() / SOME);
        let (symbol, day) = (Work::symbol(place / work.days), (place % work.days) as i32);
        // One row more than the model sees: what came.
        let mut rows = all.read(&symbol, &[&day, &(day + LOOKBACK as i32)])?;
        let mut after = None;
        if rows.days.len() > LOOKBACK {
            after = rows.days.pop().zip(rows.targets.pop());
            let kept = rows.values.len() / (LOOKBACK + 1) * LOOKBACK;
            rows.values.truncate(kept);
        }
        all.forecast(&symbol, &rows, after)?;
    }
    let mut sample: Sample<()> = clock.stop()?;
    let factor = work.forecasts() as f64 / SOME as f64;
    sample.wall_s *= factor;
    sample.cpu_s *= factor;
    let of = work.forecasts();
    sample.name = Some(format!(
        "a loop: a query, a forward, an insert for every forecast, from {SOME} of {of}"
    ));
    Ok(sample)
}
