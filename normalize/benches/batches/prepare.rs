//! Fitting z-scores on all rows and scaling them all: ours.

use crate::{harness::Failure, workload};
use millstream_data::Panel;
use millstream_normalize::{Fitted, ScaledRows, Split, fit};

/// On the pool it is called in.
pub(crate) fn run(panel: &Panel, split: &Split) -> Result<ScaledRows, Failure> {
    let Fitted { schema, scaling, .. } = fit(panel, split.train(), &workload::settings())?;
    Ok(ScaledRows::new(panel, &schema, &scaling)?)
}
