//! How good the table of all forecasts is, in the units of the source: over all rows, by fold, and the
//! mean and standard deviation of the folds, by crate `evaluate`.

use millstream_data::DataSchema;
use millstream_evaluate::{
    ColumnNames, EvaluateError, EvaluateSettings, Evaluation, Forecasts, Grouping, TableFile,
};
use millstream_predictor::FOLD_COLUMN;
use std::{num::NonZeroUsize, path::Path};

/// The figures of a table of forecasts, made by models with this schema. `season` is how many rows a
/// season has; 0 where there is none.
pub(super) fn evaluate(
    table: &Path,
    schema: &DataSchema,
    season: usize,
) -> Result<Evaluation, EvaluateError> {
    let file = TableFile::open(table)?;
    // Said, so that no column of the source is taken for one of these.
    let names = ColumnNames {
        series: schema.series_column.clone(),
        time: Some(schema.time_column.clone()),
        fold: Some(FOLD_COLUMN.to_owned()),
        ..ColumnNames::default()
    };
    let mut forecasts = Forecasts::new(file.names(), &names)?;
    let columns = forecasts.columns().clone();
    file.read(columns.names(), |batch| forecasts.add(batch))?;
    let mut settings = EvaluateSettings::default();
    settings.by = vec![Grouping::Step, Grouping::Target];
    settings.season = NonZeroUsize::new(season);
    forecasts.evaluate(&settings, None)
}
