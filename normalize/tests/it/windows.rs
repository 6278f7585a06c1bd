//! The window index against every window there is, one looked at after the other.

use crate::{
    cases::{case, size},
    reference::{Cut, Model},
    support::Table,
};
use millstream_normalize::{
    FitSettings, ScaledRows, Span, Split, SplitPart, SplitSettings, TargetSettings, WindowIndex,
    WindowSettings, fit,
};
use proptest::prelude::*;

/// The windows of an index, as rows of their series.
pub(crate) fn cuts(index: &WindowIndex, starts: &[usize]) -> Vec<Cut> {
    let windows = (0..index.len()).map(|position| index.at(position));
    windows
        .map(|window| {
            let series = window.series as usize;
            let start = starts[series];
            Cut { series, first: window.first - start, last: window.row - start }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_index_is_every_window_of_its_part(
        case in case(), from in 0i64..40, length in 0i64..40,
    ) {
        let panel = case.panel();
        let Some((split, fitted)) = case.fitted(&panel) else { return Ok(()) };
        let rows = ScaledRows::new(&panel, &fitted.schema, &fitted.scaling).unwrap();
        let (model, shape) = (Model::new(&case.table, &case.fit), case.shape(&fitted));
        let starts = case.table.starts();
        let parts = [
            split.train().part().clone(),
            split.validation.clone(),
            split.test.clone(),
            SplitPart::times(Span { from, until: from + length }),
            SplitPart::everything(),
        ];
        for part in parts {
            let index = WindowIndex::labelled(&rows, shape, &part);
            let (windows, left_out) = model.windows(&part);
            prop_assert_eq!(cuts(&index, &starts), windows, "{:?}", part);
            prop_assert_eq!(index.left_out(), left_out);
        }
        let parts = [
            split.test.clone(),
            SplitPart::times(Span { from, until: from + length }),
            SplitPart::times(Span { from, until: i64::MAX }),
            SplitPart::everything(),
        ];
        for part in parts {
            let index = WindowIndex::forecastable(&rows, shape, &part);
            let (windows, left_out) = model.forecastable(&part);
            prop_assert_eq!(cuts(&index, &starts), windows, "forecasts into {:?}", part);
            prop_assert_eq!(index.left_out(), left_out);
            let index = WindowIndex::made_in(&rows, shape, &part);
            let (windows, left_out) = model.made_in(&part);
            prop_assert_eq!(cuts(&index, &starts), windows, "made in {:?}", part);
            prop_assert_eq!(index.left_out(), left_out);
        }
    }
}

#[test]
fn the_borders_of_ett_give_the_numbers_of_windows_of_the_literature() {
    let series = (0..14_400).map(|row| (row, vec![(row as f32 * 0.1).sin()])).collect();
    let panel = Table::new(1, vec![series]).panel(&[5_000]);
    let borders = SplitSettings {
        train_end: Some("8640".into()),
        validation_end: Some("11520".into()),
        test_end: Some("14400".into()),
        ..SplitSettings::default()
    };
    let settings = FitSettings {
        target: TargetSettings { columns: vec!["c0".into()], ..TargetSettings::default() },
        window: WindowSettings {
            lookback: size(336),
            horizon: size(96),
            ..WindowSettings::default()
        },
        ..FitSettings::default()
    };
    let split = Split::new(&panel, &borders).unwrap();
    let fitted = fit(&panel, split.train(), &settings).unwrap();
    let rows = ScaledRows::new(&panel, &fitted.schema, &fitted.scaling).unwrap();
    let shape = millstream_normalize::WindowShape::of(&fitted.schema, &settings.window);
    let parts = [split.train().part(), &split.validation, &split.test];
    let found = parts.map(|part| WindowIndex::labelled(&rows, shape, part).len());
    assert_eq!(found, [8_209, 2_785, 2_785]);
}
