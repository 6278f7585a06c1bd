//! What an evaluation says of a table besides its figures: what was not known, and what is odd.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use millstream_evaluate::{
    ColumnNames, EvaluateSettings, Evaluation, Forecasts, History, TableFile,
};

fn file(text: &str) -> (tempfile::TempDir, TableFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    let file = TableFile::open(path).unwrap();
    (folder, file)
}

fn with_history(text: &str, history: Option<&str>) -> Result<Evaluation, String> {
    let (_folder, table) = file(text);
    let mut forecasts = Forecasts::new(table.names(), &ColumnNames::default()).unwrap();
    let columns = forecasts.columns().clone();
    table.read(columns.names(), |batch| forecasts.add(batch)).unwrap();
    let history = history.map(|text| {
        let (_folder, table) = file(text);
        let mut history = History::of(&forecasts, table.names()).unwrap();
        let names: Vec<String> = history.names().map(str::to_owned).collect();
        table.read(names.iter().map(String::as_str), |batch| history.add(batch)).unwrap();
        history
    });
    let mut settings = EvaluateSettings::default();
    settings.season = std::num::NonZero::new(2);
    forecasts.evaluate(&settings, history.as_ref()).map_err(|error| error.to_string())
}

fn evaluated(text: &str) -> Evaluation {
    with_history(text, None).unwrap()
}

/// What a change is over two rows is not what it is over one.
#[test]
fn what_cannot_be_a_level_is_not_taken_for_one() {
    let text = "id,date,target_time,step,pred,y\na,1,3,2,1,5\na,2,3,1,1,7\n";
    let found = evaluated(text);
    assert!(found.warnings[0].contains("y of \"a\" is both 5 and 7 at 3"), "{:?}", found.warnings);
    assert!(found.naive.iter().all(|naive| naive.unknown == 2), "{:?}", found.naive);
    assert_eq!(found.overall.mase, None);
}

#[test]
fn without_the_time_that_is_forecast_nothing_is_known() {
    let found = evaluated("id,date,pred,y\na,1,1,5\na,2,1,7\na,3,1,8\n");
    assert!(found.notes.iter().any(|note| note.contains("--target-time")), "{:?}", found.notes);
    assert!(found.naive.iter().all(|naive| naive.unknown == 3));
    assert_eq!((found.overall.mae, found.overall.directional_accuracy), (Some(17.0 / 3.0), None));
}

const LEVELS: &str = "s,day,step,target_time,y_forecast,y\n\
                      a,5,1,6,11,12\na,6,1,7,11,10\na,7,1,8,11,13\n";

/// The first last value, and all that went before, are in the history; what follows it is not looked at.
#[test]
fn a_history_says_what_was_before() {
    let alone = evaluated(LEVELS);
    let unknown = |found: &Evaluation| -> Vec<u64> {
        found.naive.iter().map(|naive| naive.unknown).collect()
    };
    assert_eq!(unknown(&alone), [1, 1, 2]);
    assert_eq!(alone.naive[0].model.as_ref().map(|model| model.count), Some(2));
    let past = "day,s,y\n3,a,4\n4,a,6\n5,a,9\n6,a,12\n7,a,10\n8,a,13\n";
    let found = with_history(LEVELS, Some(past)).unwrap();
    assert_eq!(unknown(&found), [0, 0, 0]);
    assert!(found.naive.iter().all(|naive| naive.model.is_none()));
    assert_eq!(found.naive[0].figures.mae, Some((3.0 + 2.0 + 3.0) / 3.0));
    let mean = (12.0 - 19.0 / 3.0 + 2.25 + 4.8) / 3.0;
    assert!((found.naive[1].figures.mae.unwrap() - mean).abs() < 1e-12);
    // Two rows before: 6, 9, 12.
    assert_eq!(found.naive[2].figures.mae, Some((6.0 + 1.0 + 1.0) / 3.0));
    // Of the seasons before the first forecast there is one, 4 to 9.
    let mase = (1.0 + 1.0 + 2.0) / 3.0 / 5.0;
    assert!((found.overall.mase.unwrap() - mase).abs() < 1e-12);
    let later = past.replace("6,a,12\n7,a,10\n8,a,13\n", "");
    assert_eq!(with_history(LEVELS, Some(&later)).unwrap().overall, found.overall);
}

#[test]
fn large_numbers_keep_their_last_digits() {
    let text = "s,day,step,target_time,y_forecast,y\na,5,1,6,1000000001,1000000003\n\
                a,6,1,7,1000000005,1000000004\na,7,1,8,1000000009,1000000005\n";
    let found = evaluated(text);
    assert_eq!(found.overall.mse, Some((4.0 + 1.0 + 16.0) / 3.0));
    assert_eq!((found.naive[0].figures.mae, found.naive[0].unknown), (Some(1.0), 1));
    assert_eq!(found.overall.directional_accuracy, None, "both that are known rise");
    let huge = with_history(&text.replace("1000000005,1", "1e49,1"), None).unwrap();
    assert!(huge.overall.mae.is_some_and(|mae| mae > 1e48));
}

#[test]
fn a_history_of_other_series_is_known_of() {
    let past = |series: &str| format!("day,s,y\n3,{series},4\n4,{series},6\n");
    let two = format!("{LEVELS}b,5,1,6,11,12\n");
    let check = |forecasts: &str, series: &str, expected: &[&str]| {
        let found = with_history(forecasts, Some(&past(series))).unwrap();
        assert_eq!(found.warnings.len(), expected.len(), "{:?}", found.warnings);
        for (warning, expected) in found.warnings.iter().zip(expected) {
            assert!(warning.starts_with(expected), "{warning}");
        }
    };
    check(LEVELS, "a", &[]);
    check(&two, "z", &["the history has none of the 2 series;"]);
    check(&two, "b", &["the history has 1 of the 2 series;"]);
}

#[test]
fn what_is_not_read_is_warned_of() {
    let text =
        LEVELS.replacen("y_forecast,y\n", "y_forecast,y,y_q10\n", 1).replace(",12\n", ",12,1\n");
    let found = evaluated(&text.replace(",10\n", ",10,1\n").replace(",13\n", ",13,1\n"));
    let expected = "columns that look like parts of forecasts are not read: y_q10";
    assert_eq!(found.warnings, [expected]);
}

#[test]
fn the_last_value_of_a_change_is_explained() {
    let found = evaluated("id,date,step,y_return_forecast,y_return\na,1,1,1,5\n");
    let expected = "Its \"last value\" is no change, a forecast of 0";
    assert!(found.notes.iter().any(|note| note.contains(expected)), "{:?}", found.notes);
    assert_eq!(found.naive[0].figures.mae, Some(5.0));
}

#[test]
fn what_has_come_in_part_is_judged_when_it_is_asked_for() {
    let text = "s,day,step,target_time,y_forecast,y\na,5,1,6,11,12\na,5,2,7,11,\n";
    let error = with_history(text, None).unwrap_err();
    assert!(error.contains("--partial judges the 1 rows"), "{error}");
    let both = format!("{text}a,4,1,5,1,2\na,4,2,6,1,12\n");
    let found = evaluated(&both);
    assert_eq!((found.overall.count, found.unfinished, found.without_outcome), (2, 1, 1));
}

#[test]
fn the_long_table_has_a_row_for_every_figure() {
    let found = evaluated(LEVELS);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.csv");
    found.write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let mse = found.overall.mse.unwrap();
    assert!(text.contains(&format!("\nmodel,overall,,mse,{mse:?}\n")), "{text}");
    assert!(text.contains("\nmodel,overall,,crps,\n"), "{text}");
    assert!(text.contains("\nmodel,step,1,count,3.0\n"), "{text}");
    assert!(text.contains("\nseason,overall,,mae,"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
