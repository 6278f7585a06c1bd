//! An [`Evaluation`] as a table in long form, a row for every figure: to be plotted, or put beside others.

use crate::{
    error::EvaluateError,
    evaluation::{Evaluation, Naive},
    figures::Figures,
    formats,
    references::NaiveForecaster,
};
use arrow::array::{ArrayRef, Float64Builder, RecordBatch, StringBuilder};
use std::{path::Path, sync::Arc};

/// The columns of the table.
#[derive(Default)]
struct LongTable {
    forecaster: StringBuilder,
    by: StringBuilder,
    group: StringBuilder,
    figure: StringBuilder,
    value: Float64Builder,
}

/// Whose figures of what rows follow.
#[derive(Clone, Copy)]
struct Of<'a> {
    forecaster: &'a str,
    by: &'a str,
    group: &'a str,
}

/// Figures of the model.
fn model<'a>(by: &'a str, group: &'a str) -> Of<'a> {
    Of { forecaster: "model", by, group }
}

impl Evaluation {
    /// All figures, a row for each: `forecaster` (`model`, `last`, `mean` or `season`), `by` (`overall`, a
    /// grouping, `folds_mean`, `folds_std`, `decile_by_time`), `group`, `figure`, `value` (null where
    /// undefined).
    #[must_use]
    pub fn to_table(&self) -> RecordBatch {
        let mut table = LongTable::default();
        table.figures(model("overall", ""), &self.overall);
        for Naive { forecaster, figures, .. } in &self.naive {
            let forecaster = forecaster.name();
            table.figures(Of { forecaster, by: "overall", group: "" }, figures);
        }
        for grouped in &self.by {
            for group in &grouped.groups {
                table.figures(model(grouped.by.name(), &group.group), &group.figures);
            }
        }
        if let Some(folds) = &self.folds {
            table.figures(model("folds_mean", ""), &folds.mean);
            table.figures_of(model("folds_std", ""), &folds.std);
        }
        if let Some(deciles) = &self.deciles {
            for one in &deciles.overall {
                let group = format!("{} {}", one.target, one.decile);
                let of = model("decile", &group);
                table.row(of, "count", Some(one.count as f64));
                table.row(of, "mean_forecast", Some(one.mean_forecast));
                table.row(of, "mean_outcome", Some(one.mean_outcome));
            }
            for one in &deciles.by_time {
                let fold = one.fold.map(|fold| format!(" fold {fold}")).unwrap_or_default();
                let group =
                    format!("{} {} +{}{fold} {}", one.target, one.time, one.step, one.decile);
                table.row(model("decile_by_time", &group), "mean_outcome", Some(one.mean_outcome));
            }
        }
        table.finish()
    }

    /// Writes [the table](Evaluation::to_table) to a `.csv`, `.parquet` or `.jsonl` file, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written, or has another ending.
    pub fn write(&self, path: &Path) -> Result<(), EvaluateError> {
        formats::write(path, &self.to_table())
    }
}

impl LongTable {
    fn row(&mut self, of: Of<'_>, figure: &str, value: Option<f64>) {
        self.forecaster.append_value(of.forecaster);
        self.by.append_value(of.by);
        self.group.append_value(of.group);
        self.figure.append_value(figure);
        self.value.append_option(value);
    }

    fn figures(&mut self, of: Of<'_>, figures: &Figures) {
        self.row(of, "count", Some(figures.count as f64));
        self.figures_of(of, figures);
    }

    /// All but how many there are.
    fn figures_of(&mut self, of: Of<'_>, figures: &Figures) {
        for (name, value) in figures.named() {
            self.row(of, name, value);
        }
        for one in &figures.quantiles {
            self.row(of, &format!("pinball_{}", one.quantile), one.pinball);
            self.row(of, &format!("coverage_{}", one.quantile), one.coverage);
        }
        for one in &figures.intervals {
            self.row(of, &format!("interval_coverage_{}", one.level), one.coverage);
            self.row(of, &format!("interval_width_{}", one.level), one.mean_width);
        }
    }

    fn finish(mut self) -> RecordBatch {
        let columns: [(&str, ArrayRef, bool); 5] = [
            ("forecaster", Arc::new(self.forecaster.finish()), false),
            ("by", Arc::new(self.by.finish()), false),
            ("group", Arc::new(self.group.finish()), false),
            ("figure", Arc::new(self.figure.finish()), false),
            ("value", Arc::new(self.value.finish()), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
    }
}

impl NaiveForecaster {
    /// In a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NaiveForecaster::Last => "last",
            NaiveForecaster::Mean => "mean",
            NaiveForecaster::Season => "season",
        }
    }
}
