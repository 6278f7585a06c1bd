//! Fitting z-scores and scaling all rows: on one thread, or on two.

use crate::{
    finding::Finding,
    harness::Failure,
    turns::Turns,
    workload::{self, FEATURES, Size, threads},
};
use millstream_normalize::{Fitted, ScaledRows, Split, fit};
use millstream_stage::thread_pool;
use std::{hint::black_box, thread};

pub(crate) fn measure(size: &Size) -> Result<Finding, Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let panel = workload::panel(size.series, size.rows)?;
    let split = Split::new(&panel, &workload::learn_from_all())?;
    let settings = workload::settings();
    let pools = [1, cores].map(|count| thread_pool("normalisation", threads(count)));
    let turns = Turns::take(&["one thread", "a thread per core"], size.rounds, |way| {
        pools[way].install(|| {
            let Fitted { schema, scaling, .. } = fit(&panel, split.train(), &settings)?;
            black_box(ScaledRows::new(&panel, &schema, &scaling)?);
            Ok(())
        })
    })?;
    let (rows, [before, after]) = (panel.row_count(), [0, 1].map(|way| turns.median(way) * 1e3));
    Ok(Finding {
        measured: Some(turns.gain(0, 1).median),
        losses: None,
        how: format!(
            "fit and scale {rows} rows of {FEATURES} columns: 1 thread {before:.0} ms, {cores} \
             threads {after:.0} ms"
        ),
        reason: (cores < 8).then(|| format!("this machine has {cores} cores, not 8")),
    })
}
