//! Whether the loops write what ours does: otherwise the times would not be about the same work.

use crate::{
    harness::Failure,
    loops, ours,
    workload::{FORECASTS, Work},
};

/// # Errors
/// When a row is missing or says something else.
pub(crate) fn check(work: &Work) -> Result<(), Failure> {
    work.clear()?;
    ours::run(work)?;
    let mut client = work.client()?;
    client.batch_execute(&format!(
        "DROP TABLE IF EXISTS truth; CREATE TABLE truth AS TABLE {FORECASTS}"
    ))?;
    for (name, all) in [("by series", true), ("by forecast", false)] {
        work.clear()?;
        let _sample = if all { loops::by_series(work)? } else { loops::by_forecast(work)? };
        // One window or many at a time round differently.
        let row = client.query_one(
            &format!(
                "SELECT count(*), count(t.series), coalesce(max(abs(t.close_pct_forecast - f.close_pct_forecast)), 1)::float8, \
                 count(*) FILTER (WHERE t.target_time IS DISTINCT FROM f.target_time \
                 OR t.close_pct IS DISTINCT FROM f.close_pct) \
                 FROM {FORECASTS} f LEFT JOIN truth t USING (series, time, step, model)"
            ),
            &[],
        )?;
        let (count, found, apart, others): (i64, i64, f64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let expected = if all { work.forecasts() as i64 } else { count };
        if count != expected || found != count || others > 0 || apart > 1e-4 {
            return Err(format!(
                "the loop {name} wrote {count} forecasts of {expected}, {found} of them ours, {others} with other outcomes, up to {apart} apart"
            )
            .into());
        }
        eprintln!("the loop {name}: {count} forecasts, at most {apart:.1e} from ours");
    }
    Ok(())
}
