//! [`Prepared`]: a panel made ready, with scaled rows, the indexes of its parts, and the passes over
//! them. Everything that happens once, before the first batch.

use crate::{
    batches::Batches,
    between::{Between, empty_parts},
    contract::check_panel,
    error::NormalizeError,
    fill::Filler,
    fit::{FitSettings, Fitted, fit},
    forecasts::{Forecasts, Found, set_parts, without_own_scale},
    panel_rows,
    passes::{Course, Passes, PredictPasses, TrainPasses},
    purpose::{PredictPurpose, Purpose, TrainPurpose},
    ridge,
    room::Copied,
    rows::ScaledRows,
    settings::{ShortSeries, SplitSettings, WindowOrder, WindowSettings},
    split::{Split, SplitPart, distinct_times},
    stage::NormalizeSettings,
    windows::{LeftOut, WindowIndex, WindowShape},
};
use millstream_data::{BatchLayout, Panel, Phase, Plan, WindowCounts};
use std::sync::Arc;

/// A panel made ready.
pub(crate) struct Prepared {
    pub(crate) rows: ScaledRows,
    pub(crate) shape: WindowShape,
    pub(crate) plan: Arc<Plan>,
    pub(crate) indexes: Vec<WindowIndex>,
    pub(crate) passes: Passes,
    /// See [`TargetSettings::season`](crate::TargetSettings::season).
    pub(crate) season: usize,
}

/// A panel made ready; `None` when nobody wants it any more.
type Ready = Result<Option<Prepared>, NormalizeError>;

impl Prepared {
    /// Makes a panel ready, and gives up between two pieces of the work when it is called off.
    ///
    /// Runs on the rayon pool it is called in.
    pub(crate) fn new(
        panel: &Panel,
        settings: &NormalizeSettings,
        is_called_off: &dyn Fn() -> bool,
    ) -> Ready {
        if panel.row_count() == 0 {
            return Err(NormalizeError::EmptyPanel);
        }
        match &settings.purpose {
            Purpose::Train(TrainPurpose { split, epochs, seed, resume }) => {
                let (epochs, limit) = (*epochs, settings.limit);
                let course = Course { epochs, seed: *seed, resume: *resume, limit };
                Prepared::to_train(panel, settings, split, course, is_called_off)
            }
            Purpose::Predict(predict) => {
                let forecasts = Forecasts { asked: predict, panel };
                Prepared::to_predict(settings, &forecasts, is_called_off)
            }
        }
    }

    /// The layout of the slots that hold its batches.
    pub(crate) fn layout(&self) -> BatchLayout {
        Filler::layout_of(&self.rows, self.shape, self.plan.batch_size)
    }

    fn to_train(
        panel: &Panel,
        settings: &NormalizeSettings,
        parts: &SplitSettings,
        course: Course,
        is_called_off: &dyn Fn() -> bool,
    ) -> Ready {
        let NormalizeSettings { fit: wanted, batch_size, rank, .. } = settings;
        let split = Split::new(panel, parts)?;
        long_enough(panel, wanted, &split)?;
        Copied::to_train(panel, wanted).check_room()?;
        if is_called_off() {
            return Ok(None);
        }
        let Fitted { mut schema, scaling, mut warnings } = fit(panel, split.train(), wanted)?;
        set_parts(&mut schema, &split, &panel.schema().series);
        if is_called_off() {
            return Ok(None);
        }
        let rows = ScaledRows::new(panel, &schema, &scaling)?;
        if is_called_off() {
            return Ok(None);
        }
        let shape = WindowShape::of(&schema, &wanted.window);
        let judged = |part| WindowIndex::labelled(&rows, shape.without_stride(), part);
        let train = WindowIndex::labelled(&rows, shape, split.train().part());
        let indexes = [train, judged(&split.validation), judged(&split.test)];
        let windows = counts(&rows, shape, &split, &indexes);
        if windows.train == 0 {
            let left_out = indexes[0].left_out();
            let validation = parts.validation;
            return Err(no_training_window(panel, &rows, shape, &split, validation, left_out));
        }
        warnings.extend(empty_parts(panel, &split, parts, &windows, shape.horizon)?);
        let names = &panel.schema().series;
        warnings.extend(without_own_scale(&scaling, names, &vec![true; names.len()]));

        let passes = if wanted.window.order == WindowOrder::ByTime {
            TrainPasses::by_time(panel, &rows, &indexes, settings, course)?
        } else {
            TrainPasses::evenly(&indexes, settings, course)?
        };
        let size = batch_size.get() / rank.ranks.max(1);
        let plan = Plan::new(schema, scaling, Arc::clone(panel.schema()), size);
        let mut plan = plan.to_learn_from(windows, course.epochs);
        plan.by_time = wanted.window.order == WindowOrder::ByTime;
        plan.warnings = warnings;
        plan.segments = rows.segment_count();
        passes.announce(&mut plan, &rows, &indexes[0])?;
        if plan.batches(Phase::Train) == 0 {
            return Err(NormalizeError::Conflict {
                first: format!("train.batch_size = {}", settings.batch_size),
                second: "window.drop_last",
                instead: "the only batch of an epoch is not full: set window.drop_last = false or a smaller train.batch_size",
            });
        }
        let season = wanted.target.season;
        plan.warnings.extend(season_beyond(&rows, season, plan.schema.delay));
        if settings.ridge {
            match ridge::fit(&rows, &indexes[0]) {
                Ok(ridge) => plan.ridge = Some(ridge),
                Err(why) => plan.warnings.push(why),
            }
        }
        let (passes, indexes) = (Passes::Train(Box::new(passes)), indexes.into());
        Ok(Some(Prepared { shape, plan: Arc::new(plan), passes, indexes, rows, season }))
    }

    fn to_predict(
        settings: &NormalizeSettings,
        forecasts: &Forecasts<'_>,
        is_called_off: &dyn Fn() -> bool,
    ) -> Ready {
        let Forecasts { asked, panel } = *forecasts;
        let PredictPurpose { schema, scaling, .. } = asked;
        check_panel(panel.schema(), schema)?;
        Copied::to_predict(panel, schema, scaling).check_room()?;
        if is_called_off() {
            return Ok(None);
        }
        let rows = ScaledRows::new(panel, schema, scaling)?;
        let shape = WindowShape::of(schema, &settings.fit.window);
        let Found { index, short_series, warnings } = forecasts.find(&rows, shape)?;
        let LeftOut { missing_reference, missing_input, .. } = index.left_out();
        let windows = WindowCounts {
            short_series: short_series.len() as u64,
            missing_reference,
            missing_input,
            ..WindowCounts::default()
        };
        if index.is_empty() {
            return Err(forecasts.nothing(&rows, &windows));
        }
        let batches = Batches::sorted(&index, settings.batch_size.get(), settings.rank)?;
        let batches = batches.at_most(settings.limit.most());
        let size = settings.batch_size.get() / settings.rank.ranks.max(1);
        let plan = Plan::new(schema.clone(), scaling.clone(), Arc::clone(panel.schema()), size);
        let mut plan = plan.to_forecast(batches.windows());
        plan.batches.predict = batches.len();
        (plan.windows, plan.warnings, plan.short_series) = (windows, warnings, short_series);
        plan.segments = rows.segment_count();
        plan.warnings.extend(settings.limit.forecast_warning(plan.predict, index.len()));
        let (mut indexes, mut calibration) = (vec![index], None);
        if asked.calibrate {
            let index = forecasts.to_calibrate(&rows, shape)?;
            let batches = Batches::sorted(&index, settings.batch_size.get(), settings.rank)?;
            (plan.windows.validation, plan.batches.validation) = (batches.windows(), batches.len());
            indexes.push(index);
            calibration = Some(batches);
        }
        let passes = Passes::Predict(Box::new(PredictPasses { forecasts: batches, calibration }));
        let (plan, season) = (Arc::new(plan), 0);
        Ok(Some(Prepared { rows, shape, plan, indexes, passes, season }))
    }
}

/// Refuses windows that no series has the rows for, before anything is made as large as they are.
fn long_enough(panel: &Panel, wanted: &FitSettings, split: &Split) -> Result<(), NormalizeError> {
    let WindowSettings { lookback, horizon, min_rows, short, .. } = &wanted.window;
    let delay = wanted.target.delay;
    let lookback = match short {
        ShortSeries::Skip => lookback.get(),
        ShortSeries::Pad => (*min_rows).min(*lookback).get(),
    };
    let series = panel_rows::series(panel);
    let longest = series.iter().map(|s| s.end - s.start).max().unwrap_or(0);
    let horizon = horizon.get();
    if longest < lookback.saturating_add(horizon).saturating_add(delay) {
        let learned = rows_before(panel, split.train().part());
        return Err(NormalizeError::SeriesTooShort { lookback, horizon, delay, longest, learned });
    }
    Ok(())
}

fn counts(
    rows: &ScaledRows,
    shape: WindowShape,
    split: &Split,
    parts: &[WindowIndex; 3],
) -> WindowCounts {
    let [train, validation, test] = parts.each_ref().map(WindowIndex::len);
    let sum = |of: fn(LeftOut) -> u64| parts.iter().map(|part| of(part.left_out())).sum::<u64>();
    let Between { outside, embargoed, across_border } = Between::count(rows, shape, split);
    WindowCounts {
        train,
        validation,
        test,
        short_series: short_series(rows, shape.min_rows + shape.reach()),
        missing_target: sum(|left_out| left_out.missing_target),
        missing_reference: sum(|left_out| left_out.missing_reference),
        missing_input: sum(|left_out| left_out.missing_input),
        across_border,
        embargoed,
        outside,
    }
}

fn short_series(rows: &ScaledRows, needed: usize) -> u64 {
    rows.series().iter().filter(|series| series.end - series.start < needed).count() as u64
}

/// Most rows of one series that training may see.
fn rows_before(panel: &Panel, part: &SplitPart) -> usize {
    let mut counts = vec![0; panel.schema().series.len()];
    for shard in panel.shards() {
        let rows = shard.codes().iter().zip(shard.times());
        for (code, _) in rows.filter(|(_, time)| part.span.contains(**time)) {
            counts[*code as usize] += usize::from(part.has_series(*code));
        }
    }
    counts.into_iter().max().unwrap_or(0)
}

fn no_training_window(
    panel: &Panel,
    rows: &ScaledRows,
    shape: WindowShape,
    split: &Split,
    validation: f64,
    left_out: LeftOut,
) -> NormalizeError {
    let (lookback, reach) = (shape.min_rows, shape.reach());
    let seen = rows_before(panel, split.train().part());
    let format = |time| panel.schema().format_time(time);
    let part = split.train().part();
    let series = panel.schema().series.len();
    let learned = (0..series).filter(|code| part.has_series(*code as u32)).count();
    let all = WindowIndex::labelled(rows, shape, &SplitPart::everything());
    let hint = match all.earliest(rows) {
        Some(_) if learned < series => {
            let mut with: Vec<u32> = (0..all.len()).map(|i| all.at(i).series).collect();
            with.dedup();
            // So many that they cannot all be without a window.
            let share = (series - with.len() + 1) as f64 / series as f64;
            format!(
                "of {series} series {} have such a window: try another split.seed, or set split.train to {:.3} or more",
                with.len(),
                (share * 1000.0).ceil() / 1000.0
            )
        }
        Some(time) => {
            let times = distinct_times(panel);
            let share = (times.partition_point(|&t| t <= time) as f64) / times.len() as f64;
            let share = (share * 1000.0).ceil() / 1000.0;
            let mut hint = format!("the first window is complete at {}: ", format(time));
            // A border lies within the data, so behind the last time there is no room for one.
            if share < 1.0 {
                hint += &format!("set split.train_end later than that, or split.train to {share:.3} or more");
                if share + validation > 1.0 {
                    hint += &format!(" and split.validation to {:.3} or less", 1.0 - share);
                }
                hint += ", or ";
            }
            match seen.saturating_sub(reach) {
                0 => hint + "load more rows",
                rows if rows < lookback => hint + &format!("set window.lookback to {rows} or less"),
                _ => hint + "fill what is missing",
            }
        }
        None => "no series has such a window at any time: shorten window.lookback or window.horizon, or fill what is missing".to_owned(),
    };
    NormalizeError::EmptyTrain {
        searched: match split.train().end() {
            _ if learned < series => format!("none of the {learned} series that are learned from"),
            i64::MAX => "no series".to_owned(),
            end => format!("training ends at {}, and before that no series", format(end)),
        },
        needed: lookback + reach,
        missing_target: left_out.missing_target,
        missing_input: left_out.missing_input + left_out.missing_reference,
        hint,
    }
}

/// Says that no series is so long that anything is known of a season before.
fn season_beyond(rows: &ScaledRows, season: usize, delay: usize) -> Option<String> {
    if season == 0 {
        return None;
    }
    let back = delay.saturating_add(1).div_ceil(season).saturating_mul(season);
    let longest = rows.series.iter().map(|series| series.end - series.start).max()?;
    (back >= longest).then(|| {
        format!("target.season = {season} reaches back beyond the longest series, {longest} rows: \"a season before\" is \"predict the last\" here")
    })
}
