//! Random settings that go together, and the pieces of the crate put together by them.

use crate::support::{SEGMENT, Table, cuts, table};
use millstream_data::{
    BatchSlot, CrossSection, Missing, Panel, Reference, Relative, Scaling, TargetKind,
};
use millstream_normalize::{
    Batches, Filler, FitSettings, Fitted, PadSide, Rank, ScaleGroup, ScaleMethod, ScalePer,
    ScaleSettings, ScaledRows, ShortSeries, Split, SplitBy, SplitPart, SplitSettings,
    TargetSettings, Walk, WindowIndex, WindowSettings, WindowShape, fit,
};
use proptest::{prelude::*, sample::select};
use std::num::NonZeroUsize;

/// A panel and what to make of it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) table: Table,
    pub(crate) cuts: Vec<usize>,
    pub(crate) fit: FitSettings,
    pub(crate) split: SplitSettings,
    pub(crate) batch_size: usize,
}

pub(crate) const METHODS: [ScaleMethod; 6] = [
    ScaleMethod::Zscore,
    ScaleMethod::Robust,
    ScaleMethod::Minmax,
    ScaleMethod::RankNormal,
    ScaleMethod::Log1p,
    ScaleMethod::None,
];

pub(crate) fn size(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

impl Case {
    pub(crate) fn panel(&self) -> Panel {
        self.table.panel(&self.cuts)
    }

    /// The split and what is fitted on its training part; `None` where there is nothing to fit.
    pub(crate) fn fitted(&self, panel: &Panel) -> Option<(Split, Fitted)> {
        let split = Split::new(panel, &self.split).ok()?;
        let fitted = fit(panel, split.train(), &self.fit).ok()?;
        Some((split, fitted))
    }

    pub(crate) fn shape(&self, fitted: &Fitted) -> WindowShape {
        WindowShape::of(&fitted.schema, &self.fit.window)
    }

    /// The scaling and every training batch.
    pub(crate) fn training(&self, panel: &Panel) -> Option<(Scaling, Vec<Filled>)> {
        let (split, fitted) = self.fitted(panel)?;
        let rows = ScaledRows::new(panel, &fitted.schema, &fitted.scaling).unwrap();
        let batches = self.part(&rows, &fitted, split.train().part());
        Some((fitted.scaling, batches))
    }

    /// Every batch of a part, in order.
    pub(crate) fn part(&self, rows: &ScaledRows, fitted: &Fitted, part: &SplitPart) -> Vec<Filled> {
        let index = WindowIndex::labelled(rows, self.shape(fitted), part);
        self.filled(rows, fitted, &index, self.batch_size)
    }

    /// Every batch of an index, in order.
    pub(crate) fn filled(
        &self,
        rows: &ScaledRows,
        fitted: &Fitted,
        index: &WindowIndex,
        batch_size: usize,
    ) -> Vec<Filled> {
        let batches = Batches::sorted(index, batch_size, Rank::ALONE).unwrap();
        let mut filler = Filler::new(rows, self.shape(fitted), fitted.schema.padding, batch_size);
        let mut slot = BatchSlot::on_heap(filler.layout());
        let mut fill = |batch| {
            filler.fill(&mut slot, rows, index, &batches, batch);
            Filled::of(&slot)
        };
        (0..batches.len()).map(&mut fill).collect()
    }
}

/// What a filled slot holds, without the room that a batch leaves free. Equal means bit for bit.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    pub(crate) lookback: usize,
    pub(crate) series: Vec<u32>,
    pub(crate) time: Vec<i64>,
    pub(crate) target_time: Vec<Option<i64>>,
    pub(crate) inputs: Vec<f32>,
    pub(crate) targets: Vec<f32>,
    pub(crate) last: Vec<f32>,
    pub(crate) lengths: Vec<f32>,
    pub(crate) mask: Vec<f32>,
    pub(crate) segments: Vec<f32>,
    pub(crate) outcomes: Vec<f32>,
    /// The last values in user units.
    pub(crate) last_known: Vec<f32>,
}

impl Filled {
    pub(crate) fn of(slot: &BatchSlot) -> Self {
        Filled {
            lookback: slot.meta.lookback,
            series: slot.series().to_vec(),
            time: slot.times().to_vec(),
            target_time: slot.meta.target_time.clone(),
            inputs: slot.inputs().to_vec(),
            targets: slot.targets().to_vec(),
            last: slot.last_known().to_vec(),
            lengths: slot.lengths().to_vec(),
            mask: slot.mask().to_vec(),
            segments: slot.segments().to_vec(),
            outcomes: slot.meta.outcomes.clone(),
            last_known: slot.meta.last_known.clone(),
        }
    }

    pub(crate) fn parts(&self) -> [&[f32]; 8] {
        let Filled { inputs, targets, last, lengths, mask, segments, outcomes, .. } = self;
        [inputs, targets, last, lengths, mask, segments, outcomes, &self.last_known]
    }
}

impl PartialEq for Filled {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&[f32], &[f32])| {
            a.iter().map(|x| x.to_bits()).eq(b.iter().map(|x| x.to_bits()))
        };
        (self.lookback, &self.series, &self.time) == (other.lookback, &other.series, &other.time)
            && self.parts().into_iter().zip(other.parts()).all(same)
    }
}

fn window() -> impl Strategy<Value = WindowSettings> {
    let short = select(vec![ShortSeries::Skip, ShortSeries::Pad]);
    let pad = select(vec![PadSide::Left, PadSide::Right]);
    let rows = (1usize..7, 1usize..4, 1usize..4, 1usize..9);
    (rows, short, pad, any::<bool>()).prop_map(|(rows, short, pad, segment)| WindowSettings {
        lookback: size(rows.0),
        horizon: size(rows.1),
        stride: size(rows.2),
        min_rows: size(rows.3),
        short,
        pad,
        segment: segment.then(|| SEGMENT.to_owned()),
        ..WindowSettings::default()
    })
}

fn target(table: &Table) -> impl Strategy<Value = TargetSettings> + use<> {
    let columns = prop::sample::subsequence(table.columns.clone(), 1..=table.columns.len().min(3));
    let kind = select(vec![
        TargetKind::Value,
        TargetKind::Difference,
        TargetKind::Return,
        TargetKind::Direction,
    ]);
    let band = select(vec![0.0, 0.01, 0.5]);
    (columns.prop_shuffle(), kind, 0usize..4, band, cross_section()).prop_map(
        |(columns, kind, delay, dead_band, cross_section)| {
            let delayed = [TargetKind::Return, TargetKind::Direction].contains(&kind);
            let delay = if delayed { delay } else { 0 };
            let cross_section = match kind {
                TargetKind::Difference | TargetKind::Direction => CrossSection::None,
                _ => cross_section,
            };
            TargetSettings { columns, kind, delay, dead_band, cross_section, season: 0 }
        },
    )
}

fn cross_section() -> impl Strategy<Value = CrossSection> {
    prop_oneof![
        3 => Just(CrossSection::None),
        1 => Just(CrossSection::Rank),
        1 => Just(CrossSection::Zscore),
    ]
}

/// The treatment of some columns. A reference goes neither with a curve nor with a cross-section.
fn group(names: &[String]) -> impl Strategy<Value = ScaleGroup> + use<> {
    let reference = prop_oneof![
        4 => Just(Reference::None),
        2 => Just(Reference::First),
        2 => Just(Reference::Last),
        3 => select(names.to_vec()).prop_map(Reference::Column),
    ];
    let per = select(vec![ScalePer::Feature, ScalePer::Series]);
    let relative = select(vec![Relative::Difference, Relative::Ratio]);
    let clip = select(vec![0.0, 0.0, 1.5]);
    (select(&METHODS[..]), per, clip, cross_section(), reference, relative).prop_map(
        |(method, per, clip, cross_section, reference, relative)| {
            let free = reference == Reference::None;
            let curved = matches!(method, ScaleMethod::RankNormal | ScaleMethod::Log1p);
            ScaleGroup {
                columns: Vec::new(),
                method: Some(if curved && !free { ScaleMethod::Zscore } else { method }),
                per: Some(per),
                clip: Some(clip),
                cross_section: Some(if free { cross_section } else { CrossSection::None }),
                reference: Some(reference),
                relative: Some(relative),
            }
        },
    )
}

fn scale(table: &Table) -> impl Strategy<Value = ScaleSettings> + use<> {
    let names = &table.columns;
    let column = select(names.clone());
    let some = (group(names), prop::collection::vec(column, 1..3))
        .prop_map(|(group, columns)| ScaleGroup { columns, ..group });
    let missing = select(vec![Missing::Zero, Missing::Ffill, Missing::Mask, Missing::Drop]);
    (group(names), missing, prop::collection::vec(some, 0..3)).prop_map(|(all, missing, groups)| {
        ScaleSettings {
            method: all.method.unwrap(),
            per: all.per.unwrap(),
            missing,
            clip: all.clip.unwrap(),
            cross_section: all.cross_section.unwrap(),
            reference: all.reference.unwrap(),
            relative: all.relative.unwrap(),
            groups,
        }
    })
}

/// Shares, dates, folds or series.
pub(crate) fn split(table: &Table) -> impl Strategy<Value = SplitSettings> + use<> {
    let times = table.times();
    let shares = (0.2f64..1.0, 0.0f64..0.3, 0usize..3, any::<u64>()).prop_map(
        |(train, validation, embargo, seed)| SplitSettings {
            train,
            validation: validation.min(1.0 - train),
            embargo,
            seed,
            ..SplitSettings::default()
        },
    );
    let walk = select(vec![Walk::Expanding, Walk::Rolling]);
    let date = (0.0f64..1.0, 0i64..5, 0i64..9);
    (shares, 0usize..6, (1usize..4, 1usize..4, walk), date).prop_map(
        move |(shares, kind, (folds, fold, walk), (at, length, test))| match kind {
            0 | 1 => shares,
            2 => SplitSettings { by: SplitBy::Series, embargo: 0, ..shares },
            3 | 4 => {
                let fold = size(fold.min(folds));
                let train = shares.train * 0.6;
                SplitSettings { folds, fold, walk, train, ..shares }
            }
            _ => {
                let border = times.get((at * times.len() as f64) as usize).copied().unwrap_or(7);
                let after = border + 1 + length;
                SplitSettings {
                    train_end: Some(border.to_string()),
                    validation_end: (length % 2 == 0).then(|| after.to_string()),
                    test_end: (test % 2 == 0).then(|| (after + 1 + test).to_string()),
                    ..shares
                }
            }
        },
    )
}

/// Everything at random.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    (table(), cuts(), window(), 1usize..20)
        .prop_flat_map(|(table, cuts, window, batch_size)| {
            let settings = (target(&table), scale(&table), split(&table));
            (Just((table, cuts, window, batch_size)), settings)
        })
        .prop_map(|((table, cuts, window, batch_size), (target, scale, split))| {
            // A cross-section would carry series that are held out into training.
            let crossed = target.cross_section != CrossSection::None
                || scale.cross_section != CrossSection::None
                || scale.groups.iter().any(|g| g.cross_section != Some(CrossSection::None));
            let by = if crossed { SplitBy::Time } else { split.by };
            let split = SplitSettings { by, ..split };
            Case { table, cuts, fit: FitSettings { target, window, scale }, split, batch_size }
        })
}
