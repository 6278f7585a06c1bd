//! Whatever the table: its figures follow their definitions, and neither the order of its rows nor how they
//! come in batches changes them.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use arrow::{
    array::{
        ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, UInt64Array,
    },
    compute::take_record_batch,
};
use millstream_evaluate::{
    ColumnNames, EvaluateError, EvaluateSettings, Evaluation, Forecasts, Grouping, evaluate,
};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
struct Row {
    series: u8,
    time: i64,
    step: i32,
    forecast: f64,
    outcome: Option<f64>,
}

/// Small whole numbers, so that ties, zeros and equal sides come up; no forecast twice.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (0u8..14, 0i64..4, 1i32..3, -3i32..4, prop::option::weighted(0.9, -3i32..4));
    prop::collection::vec(row, 1..80).prop_map(|rows| {
        let row = |(series, time, step, forecast, outcome): (u8, i64, i32, i32, Option<i32>)| Row {
            series,
            time,
            step,
            forecast: f64::from(forecast),
            outcome: outcome.map(f64::from),
        };
        let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
        rows.sort_by_key(|row| (row.series, row.time, row.step));
        rows.dedup_by_key(|row| (row.series, row.time, row.step));
        rows
    })
}

fn table(rows: &[Row]) -> RecordBatch {
    let series: ArrayRef =
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("s{}", row.series))));
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.time)));
    let step: ArrayRef = Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.step)));
    let ahead = rows.iter().map(|row| row.time + i64::from(row.step));
    let target_time: ArrayRef = Arc::new(Int64Array::from_iter_values(ahead));
    let forecast: ArrayRef =
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.forecast)));
    let outcome: ArrayRef = Arc::new(rows.iter().map(|row| row.outcome).collect::<Float64Array>());
    let columns = [
        ("symbol", series, false),
        ("day", time, false),
        ("step", step, false),
        ("target_time", target_time, false),
        ("y_return_forecast", forecast, false),
        ("y_return", outcome, true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn settings() -> EvaluateSettings {
    let mut settings = EvaluateSettings::default();
    settings.by = Grouping::ALL
        .into_iter()
        .filter(|by| !matches!(by, Grouping::Month | Grouping::Fold))
        .collect();
    settings.partial = true;
    settings.season = std::num::NonZero::new(2);
    settings
}

fn close(found: Option<f64>, expected: Option<f64>) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        (found, expected) => found == expected,
    }
}

fn same(one: &Evaluation, other: &Evaluation) -> Result<(), TestCaseError> {
    let (one, other) = (one.to_table(), other.to_table());
    prop_assert_eq!(one.num_rows(), other.num_rows());
    for column in 0..4 {
        prop_assert_eq!(one.column(column), other.column(column));
    }
    let values = |table: &RecordBatch| -> Vec<Option<f64>> {
        let column = table.column(4).as_any().downcast_ref::<Float64Array>().unwrap();
        column.iter().collect()
    };
    let figures: &StringArray = one.column(3).as_any().downcast_ref().unwrap();
    for (at, (a, b)) in values(&one).into_iter().zip(values(&other)).enumerate() {
        // Of deviations of a few correlations, rounding is seen most.
        prop_assert!(close(a, b), "{}: {a:?}, {b:?}", figures.value(at));
    }
    Ok(())
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

proptest! {
    #[test]
    fn figures_follow_their_definitions(rows in rows()) {
        let judged: Vec<(f64, f64)> =
            rows.iter().filter_map(|row| Some((row.forecast, row.outcome?))).collect();
        let found = match evaluate(&[table(&rows)], &settings()) {
            Err(EvaluateError::NothingToJudge { .. }) => {
                prop_assert!(judged.is_empty());
                return Ok(());
            }
            found => found.unwrap(),
        };
        let of = |judge: &dyn Fn(f64, f64) -> Option<f64>| {
            mean(&judged.iter().filter_map(|(f, o)| judge(*f, *o)).collect::<Vec<_>>())
        };
        let overall = &found.overall;
        prop_assert!(close(overall.mse, of(&|f, o| Some((f - o).powi(2)))));
        prop_assert!(close(overall.mae, of(&|f, o| Some((f - o).abs()))));
        prop_assert!(close(overall.mape, of(&|f, o| (o != 0.0).then(|| ((f - o) / o).abs()))));
        let symmetric = of(&|f: f64, o: f64| {
            let sizes = f.abs() + o.abs();
            Some(if sizes > 0.0 { 2.0 * (f - o).abs() / sizes } else { 0.0 })
        });
        prop_assert!(close(overall.smape, symmetric));
        let directed = |f: f64, o: f64| f * o != 0.0;
        let right = of(&|f, o| directed(f, o).then(|| f64::from(u8::from(f * o > 0.0))));
        let came = |up: bool| judged.iter().any(|(f, o)| directed(*f, *o) && (*o > 0.0) == up);
        let right = right.filter(|_| came(true) && came(false));
        prop_assert!(close(overall.directional_accuracy, right));
        prop_assert_eq!(found.without_outcome as usize, rows.len() - judged.len());
        for grouped in &found.by {
            let count: u64 = grouped.groups.iter().map(|group| group.figures.count).sum();
            prop_assert_eq!(count as usize, judged.len(), "{:?}", grouped.by);
        }
    }

    #[test]
    fn the_order_of_the_rows_says_nothing(
        (rows, order) in rows().prop_flat_map(|rows| {
            let order: Vec<u64> = (0..rows.len() as u64).collect();
            (Just(rows), Just(order).prop_shuffle())
        }),
        cut in 0usize..80,
    ) {
        prop_assume!(rows.iter().any(|row| row.outcome.is_some()));
        let settings = settings();
        let table = table(&rows);
        let expected = evaluate(std::slice::from_ref(&table), &settings).unwrap();
        let shuffled = take_record_batch(&table, &UInt64Array::from(order)).unwrap();
        let cut = cut.min(rows.len());
        let batches = [shuffled.slice(0, cut), shuffled.slice(cut, rows.len() - cut)];
        same(&expected, &evaluate(&batches, &settings).unwrap())?;
    }

    #[test]
    fn a_row_that_is_there_twice_is_always_found(rows in rows(), at in 0usize..80) {
        prop_assume!(rows.iter().any(|row| row.outcome.is_some()));
        let table = table(&rows);
        let again = table.slice(at % rows.len(), 1);
        let mut forecasts =
            Forecasts::new(&table.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>(),
                           &ColumnNames::default()).unwrap();
        forecasts.add(&table).unwrap();
        forecasts.add(&again).unwrap();
        let error = forecasts.evaluate(&settings(), None).unwrap_err();
        let first = at % rows.len() + 1;
        let expected = format!("rows {first} and {} both forecast", rows.len() + 1);
        prop_assert!(error.to_string().starts_with(&expected), "{}", error);
    }
}
