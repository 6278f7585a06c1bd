//! The normalised rows: the panel's private, scaled copy that windows are cut from.
//!
//! Scaling is applied once per row, not once per window; only what is relative to the window waits
//! until it is cut. Inputs and labels are kept apart: a missing input becomes zero, a missing label
//! stays NaN so that no window can mistake it for a value.

use crate::{
    apply::{Columns, Scaled, scale_rows},
    cross_section::crossed,
    error::NormalizeError,
    labels::Labels,
    moments::is_known,
    panel_rows::{self, PanelRows, SeriesRows},
    reference::{BadReferences, References},
    windows::Window,
};
use millstream_data::{
    DataSchema, Extras, Missing, Padding, Panel, Reference, Scaling, TargetKind,
};
use rayon::prelude::*;
use std::borrow::Cow;

/// Segments are small integers.
const LARGEST_SEGMENT: f32 = 65_535.0;

/// The scaled panel, its shards laid end to end.
#[derive(Debug)]
pub struct ScaledRows {
    /// Values of an input row: the features, and their mask where there is one.
    pub channels: usize,
    /// Parts of a batch besides inputs and labels.
    pub extras: Extras,
    pub(crate) labels: Labels,
    /// The labels in user units; of kind `difference` the levels that they lead to.
    pub(crate) outcomes: Labels,
    pub(crate) references: Option<References>,
    pub(crate) times: Vec<i64>,
    pub(crate) series: Vec<SeriesRows>,
    /// First row of each shard.
    pub(crate) shard_starts: Vec<usize>,
    pub(crate) validity: Validity,
    inputs: Vec<f32>,
    segments: Vec<f32>,
}

/// By row: what keeps windows out. An empty list stands for "nothing does".
#[derive(Debug)]
pub(crate) struct Validity {
    /// See [`Labels::missing`].
    pub(crate) missing_label: Vec<bool>,
    /// Whether labels stand in the row a window ends at, instead of the rows after it.
    pub(crate) label_at_window: bool,
    pub(crate) missing_input: Vec<bool>,
    pub(crate) bad_reference: BadReferences,
}

impl ScaledRows {
    /// Scales the panel's rows as a model wants them. Columns are looked up by name.
    ///
    /// Runs on the rayon pool it is called in.
    ///
    /// # Errors
    /// When the panel does not have one of the columns, or a segment is no small integer.
    pub fn new(
        panel: &Panel,
        schema: &DataSchema,
        scaling: &Scaling,
    ) -> Result<Self, NormalizeError> {
        let names = &panel.schema().columns;
        let find = |name: &str| names.iter().position(|column| column == name);
        let place = |name: &String| {
            find(name).ok_or_else(|| {
                let (column, columns) = (name.clone(), names.clone());
                NormalizeError::MissingFeature { column, columns }
            })
        };
        let features =
            scaling.features.iter().map(|c| place(&c.name)).collect::<Result<Vec<_>, _>>()?;
        let targets =
            scaling.targets.iter().map(|c| place(&c.name)).collect::<Result<Vec<_>, _>>()?;
        let (times, series) = (panel_rows::times(panel), panel_rows::series(panel));

        let raw = PanelRows::new(panel);
        let segments = segments(panel, &raw, schema, place)?;

        let panel = crossed(panel, &scaling.features, &times);
        let rows = PanelRows::new(&panel);
        let columns = Columns { inputs: &features, targets: &targets };
        let Scaled { inputs, mut targets } =
            scale_rows(&rows, &series, panel.schema(), columns, scaling);
        if let Cow::Owned(_) = panel {
            // An input's place among its peers is not what is forecast.
            targets = panel_rows::columns(&raw, columns.targets);
        }
        let (count, names) = (columns.targets.len(), panel.schema());
        let kind = scaling.targets.first().map(|c| c.cross_section).unwrap_or_default();
        let levels = (schema.target_kind == TargetKind::Difference)
            .then(|| Labels::levels(targets.clone(), &series, count, schema.horizon));
        let labels = Labels::raw(targets, &series, &times, count, schema, kind);
        let without_level = levels.as_ref().map(Labels::without_level).unwrap_or_default();
        let outcomes = levels.unwrap_or_else(|| labels.clone());
        let labels = labels.scale(&series, names, scaling);
        for column in &scaling.features {
            if let Reference::Column(name) = &column.reference {
                place(name)?;
            }
        }
        let place_of = |name: &str| find(name).expect("every reference has just been looked up");
        // What values are relative to is in raw units, whatever becomes of that column itself.
        let references = References::new(&raw, &series, panel.schema(), scaling, place_of);
        let channels = inputs.len() / rows.len().max(1);
        let missing_input = match scaling.missing {
            Missing::Drop => missing_inputs(&rows, &features),
            Missing::Zero | Missing::Ffill | Missing::Mask => Vec::new(),
        };
        let mut bad_reference =
            references.as_ref().map(|r| r.bad_rows(&inputs, channels)).unwrap_or_default();
        bad_reference.add_last(without_level);
        Ok(ScaledRows {
            channels,
            extras: Extras {
                padding: schema.padding != Padding::None,
                segments: schema.segment.is_some(),
            },
            validity: Validity {
                missing_label: labels.missing(),
                label_at_window: labels.are_at_window(),
                missing_input,
                bad_reference,
            },
            shard_starts: rows.shard_starts().to_vec(),
            labels,
            outcomes,
            references,
            times,
            series,
            inputs,
            segments,
        })
    }

    /// Input values of `rows` rows from `row` on. What is relative to a window is in raw units.
    #[must_use]
    pub fn inputs(&self, row: usize, rows: usize) -> &[f32] {
        &self.inputs[row * self.channels..(row + rows) * self.channels]
    }

    /// The inputs of a window's last row, as a model sees them: what is relative to the window is.
    pub(crate) fn last_inputs(&self, window: &Window, out: &mut [f32], scratch: &mut [f32]) {
        match &self.references {
            None => out.copy_from_slice(self.inputs(window.row, 1)),
            Some(references) => {
                let source = self.inputs(window.first, window.rows());
                references.copy_last(source, self.channels, window, out, scratch);
            }
        }
    }

    /// The first row of the series that this one is of.
    pub(crate) fn series_start(&self, row: usize) -> usize {
        self.series[self.series.partition_point(|series| series.end <= row)].start
    }

    /// Segments of `rows` rows from `row` on; empty where there is no segment column.
    #[must_use]
    pub fn segments(&self, row: usize, rows: usize) -> &[f32] {
        if self.segments.is_empty() { &[] } else { &self.segments[row..row + rows] }
    }

    /// One more than the largest segment; 0 where there is no segment column.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        let largest = self.segments.iter().copied().reduce(f32::max);
        largest.map_or(0, |largest| largest as usize + 1)
    }

    /// All times, one a row.
    #[must_use]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Where each series lies.
    #[must_use]
    pub fn series(&self) -> &[SeriesRows] {
        &self.series
    }

    /// Target columns.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.labels.targets
    }
}

fn missing_inputs(rows: &PanelRows<'_>, features: &[usize]) -> Vec<bool> {
    let all: Vec<&[f32]> = rows.rows(0..rows.len()).collect();
    all.into_par_iter().map(|row| features.iter().any(|&at| !is_known(row[at]))).collect()
}

fn segments(
    panel: &Panel,
    rows: &PanelRows<'_>,
    schema: &DataSchema,
    place: impl Fn(&String) -> Result<usize, NormalizeError>,
) -> Result<Vec<f32>, NormalizeError> {
    let Some(column) = &schema.segment else { return Ok(Vec::new()) };
    let at = place(column)?;
    let segments: Vec<f32> = rows.rows(0..rows.len()).map(|row| row[at]).collect();
    let bad = |value: &f32| !(*value >= 0.0 && *value <= LARGEST_SEGMENT && value.fract() == 0.0);
    match segments.iter().position(bad) {
        None => Ok(segments),
        Some(row) => {
            let times = panel_rows::times(panel);
            let series = panel_rows::series(panel);
            let code = series[series.partition_point(|s| s.end <= row)].code;
            Err(NormalizeError::BadSegment {
                column: column.clone(),
                value: segments[row],
                series: panel.schema().series[code as usize].clone(),
                time: panel.schema().format_time(times[row]),
            })
        }
    }
}
