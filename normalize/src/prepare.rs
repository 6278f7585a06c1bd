//! [`Prepared`]: a panel made ready, with scaled rows, the indexes of its parts, and the passes over
//! them. Everything that happens once, before the first batch.

use crate::{
    batches::{Batches, Rank, TimeBatches, TrainingOrder},
    between::{Between, empty_parts},
    contract::check_panel,
    error::NormalizeError,
    fit::{Fitted, fit},
    forecasts::{Forecasts, set_test_part, without_own_scale},
    rows::Rows,
    settings::{SplitSettings, WindowOrder},
    split::{Part, Split, distinct_times},
    stage::{NormalizeSettings, Purpose, Resume},
    windows::{LeftOut, Shape, WindowIndex},
};
use millstream_stage::{BatchCounts, Panel, Phase, Plan, WindowCounts};
use std::sync::Arc;

/// A panel made ready.
pub(crate) struct Prepared {
    pub(crate) rows: Rows,
    pub(crate) shape: Shape,
    pub(crate) plan: Arc<Plan>,
    pub(crate) indexes: Vec<WindowIndex>,
    pub(crate) passes: Vec<Pass>,
}

/// One pass over one part.
pub(crate) struct Pass {
    pub(crate) epoch: u32,
    pub(crate) phase: Phase,
    /// Position in `Prepared::indexes`.
    pub(crate) index: usize,
    pub(crate) batches: Batches,
    /// The batch to begin with.
    pub(crate) first: u64,
}

/// What a training run is to be.
struct Training<'a> {
    split: &'a SplitSettings,
    epochs: u32,
    seed: u64,
    resume: Option<Resume>,
}

impl Prepared {
    pub(crate) fn new(panel: &Panel, settings: &NormalizeSettings) -> Result<Self, NormalizeError> {
        if panel.row_count() == 0 {
            return Err(NormalizeError::EmptyPanel);
        }
        match &settings.purpose {
            Purpose::Train { split, epochs, seed, resume } => {
                let training = Training { split, epochs: *epochs, seed: *seed, resume: *resume };
                Prepared::to_train(panel, settings, &training)
            }
            Purpose::Predict { schema, scaling, times, series } => {
                let forecasts = Forecasts { schema, scaling, times: *times, series };
                Prepared::to_predict(panel, settings, &forecasts)
            }
        }
    }

    fn to_train(
        panel: &Panel,
        settings: &NormalizeSettings,
        training: &Training<'_>,
    ) -> Result<Self, NormalizeError> {
        let NormalizeSettings { fit: wanted, batch_size, rank, .. } = settings;
        let split = Split::new(panel, training.split)?;
        let Fitted { mut schema, scaling, mut warnings } = fit(panel, split.train(), wanted)?;
        set_test_part(&mut schema, &split.test, &panel.schema().series);
        let rows = Rows::new(panel, &schema, &scaling)?;
        let shape = Shape::of(&schema, &wanted.window);
        let parts = [split.train().part(), &split.validation, &split.test];
        let indexes = parts.map(|part| WindowIndex::labelled(&rows, shape, part));
        let windows = counts(&rows, shape, &split, &indexes);
        if windows.train == 0 {
            let left_out = indexes[0].left_out();
            let validation = training.split.validation;
            return Err(no_training_window(panel, &rows, shape, &split, validation, left_out));
        }
        warnings.extend(empty_parts(panel, &split, training.split, &windows, shape.horizon)?);
        let names = &panel.schema().series;
        warnings.extend(without_own_scale(&scaling, names, &vec![true; names.len()]));

        let maker = Passes { rows: &rows, indexes: &indexes, settings, training };
        let (batches, passes) = if wanted.window.order == WindowOrder::ByTime {
            maker.by_time(panel)?
        } else {
            maker.evenly()?
        };
        let plan = Plan {
            schema,
            scaling,
            panel: Arc::clone(panel.schema()),
            windows,
            batch_size: batch_size.get() / rank.ranks.max(1),
            epochs: training.epochs,
            batches,
            by_time: wanted.window.order == WindowOrder::ByTime,
            warnings,
            predict: 0,
        };
        Ok(Prepared { shape, plan: Arc::new(plan), passes, indexes: indexes.into(), rows })
    }

    fn to_predict(
        panel: &Panel,
        settings: &NormalizeSettings,
        forecasts: &Forecasts<'_>,
    ) -> Result<Self, NormalizeError> {
        let Forecasts { schema, scaling, .. } = *forecasts;
        check_panel(panel.schema(), schema)?;
        let rows = Rows::new(panel, schema, scaling)?;
        let shape = Shape::of(schema, &settings.fit.window);
        let (index, warnings) = forecasts.windows(panel, &rows, shape)?;
        let LeftOut { missing_reference, missing_input, .. } = index.left_out();
        let windows = WindowCounts {
            short_series: short_series(&rows, shape.min_rows),
            missing_reference,
            missing_input,
            ..WindowCounts::default()
        };
        if index.is_empty() {
            return Err(forecasts.nothing(panel, &rows, &windows));
        }
        let batches = Batches::sorted(&index, settings.batch_size.get(), settings.rank)?;
        let plan = Plan {
            schema: schema.clone(),
            scaling: scaling.clone(),
            panel: Arc::clone(panel.schema()),
            windows,
            batch_size: settings.batch_size.get() / settings.rank.ranks.max(1),
            epochs: 0,
            batches: BatchCounts { predict: batches.len(), ..BatchCounts::default() },
            by_time: false,
            warnings,
            predict: index.len(),
        };
        let pass = Pass { epoch: 0, phase: Phase::Predict, index: 0, batches, first: 0 };
        let passes = vec![pass];
        Ok(Prepared { rows, shape, plan: Arc::new(plan), indexes: vec![index], passes })
    }
}

/// Makes the passes of a training run, over the indexes train, validation, test.
struct Passes<'a> {
    rows: &'a Rows,
    indexes: &'a [WindowIndex; 3],
    settings: &'a NormalizeSettings,
    training: &'a Training<'a>,
}

impl Passes<'_> {
    fn evenly(&self) -> Result<(BatchCounts, Vec<Pass>), NormalizeError> {
        let NormalizeSettings { fit, batch_size, rank, .. } = self.settings;
        let [train, validation, test] = self.indexes;
        let sorted = |index| Batches::sorted(index, batch_size.get(), *rank);
        let training = |epoch| {
            let (order, drop_last) = (fit.window.order, fit.window.drop_last);
            let order = TrainingOrder { order, drop_last, seed: self.training.seed, epoch };
            Batches::training(self.rows, train, batch_size.get(), *rank, order)
        };
        self.passes(training, &sorted(validation)?, &sorted(test)?)
    }

    fn by_time(&self, panel: &Panel) -> Result<(BatchCounts, Vec<Pass>), NormalizeError> {
        let NormalizeSettings { batch_size, rank, .. } = self.settings;
        let Rank { rank: _, ranks } = *rank;
        if ranks == 0 || rank.rank >= ranks || batch_size.get() % ranks != 0 {
            let (batch_size, rank) = (batch_size.get(), rank.rank);
            return Err(NormalizeError::Ranks { batch_size, rank, ranks });
        }
        let pack = |index| {
            let size = batch_size.get() / ranks;
            TimeBatches::new(self.rows, index, size, panel.schema()).map(Arc::new)
        };
        let [train, validation, test] = self.indexes;
        let (train, validation, test) = (pack(train)?, pack(validation)?, pack(test)?);
        let seed = self.training.seed;
        let training = |epoch| Ok(Batches::by_time(&train, *rank, Some((seed, epoch))));
        let sorted = |times| Batches::by_time(times, *rank, None);
        self.passes(training, &sorted(&validation), &sorted(&test))
    }

    /// Validation once before the first step, each epoch's training and validation, the test.
    fn passes(
        &self,
        training: impl Fn(u32) -> Result<Batches, NormalizeError>,
        validation: &Batches,
        test: &Batches,
    ) -> Result<(BatchCounts, Vec<Pass>), NormalizeError> {
        let Training { epochs, resume, .. } = *self.training;
        let start = resume.unwrap_or(Resume { epoch: 1, batch: 0 });
        let (validation, test) = (|| validation.clone(), || test.clone());
        let pass = |epoch, phase, index, batches| Pass { epoch, phase, index, batches, first: 0 };
        let mut passes = Vec::new();
        if resume.is_none() {
            passes.push(pass(0, Phase::Validation, 1, validation()));
        }
        for epoch in start.epoch..=epochs {
            let first = if epoch == start.epoch { start.batch } else { 0 };
            passes.push(Pass { first, ..pass(epoch, Phase::Train, 0, training(epoch)?) });
            passes.push(pass(epoch, Phase::Validation, 1, validation()));
        }
        passes.push(pass(epochs, Phase::Test, 2, test()));
        let counts = BatchCounts {
            train: training(1)?.len(),
            validation: validation().len(),
            test: test().len(),
            predict: 0,
        };
        Ok((counts, passes))
    }
}

fn counts(rows: &Rows, shape: Shape, split: &Split, parts: &[WindowIndex; 3]) -> WindowCounts {
    let [train, validation, test] = parts.each_ref().map(WindowIndex::len);
    let sum = |of: fn(LeftOut) -> u64| parts.iter().map(|part| of(part.left_out())).sum::<u64>();
    let Between { outside, embargoed, across_border } = Between::count(rows, shape, split);
    WindowCounts {
        train,
        validation,
        test,
        short_series: short_series(rows, shape.min_rows + shape.horizon),
        missing_target: sum(|left_out| left_out.missing_target),
        missing_reference: sum(|left_out| left_out.missing_reference),
        missing_input: sum(|left_out| left_out.missing_input),
        across_border,
        embargoed,
        outside,
    }
}

fn short_series(rows: &Rows, needed: usize) -> u64 {
    rows.series().iter().filter(|series| series.end - series.start < needed).count() as u64
}

/// Most rows of one series that training may see.
fn rows_before(panel: &Panel, part: &Part) -> usize {
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
    rows: &Rows,
    shape: Shape,
    split: &Split,
    validation: f64,
    left_out: LeftOut,
) -> NormalizeError {
    let (lookback, horizon) = (shape.min_rows, shape.horizon);
    let longest = rows.series().iter().map(|s| s.end - s.start).max().unwrap_or(0);
    let seen = rows_before(panel, split.train().part());
    if longest < lookback + horizon {
        return NormalizeError::SeriesTooShort { lookback, horizon, longest, learned: seen };
    }
    let format = |time| panel.schema().format_time(time);
    let part = split.train().part();
    let series = panel.schema().series.len();
    let learned = (0..series).filter(|code| part.has_series(*code as u32)).count();
    let all = WindowIndex::labelled(rows, shape, &Part::everything());
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
            match seen.saturating_sub(horizon) {
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
        needed: lookback + horizon,
        missing_target: left_out.missing_target,
        missing_input: left_out.missing_input + left_out.missing_reference,
        hint,
    }
}
