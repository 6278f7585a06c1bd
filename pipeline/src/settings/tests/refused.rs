//! One clear line for everything that can be wrong with settings.

use super::*;

/// The error for this file and these flags, all of it.
fn check_refused(file: &str, set: &[&str], expected: &str) {
    for _ in 0..8 {
        assert_eq!(read(file, &[], set).unwrap_err(), expected);
    }
}

/// The words that a key takes; a list may grow.
fn choices(key: &str) -> String {
    let Some(shape::Shape::Choice(words)) = shape::Shape::settings().at(key) else { panic!() };
    words.join(", ")
}

fn check_variable_refused(name: &str, value: &str, expected: &str) {
    assert_eq!(read("", &[(name, value)], &[]).unwrap_err(), expected);
}

#[test]
fn sections_and_settings_are_not_mistaken_for_each_other() {
    check_refused(
        "",
        &["train=3"],
        "--set: train = 3, but train is a section; set its keys, e.g. train.model",
    );
    check_refused(
        "",
        &["window=[1]"],
        "--set: window = [1], but window is a section; set its keys, e.g. window.lookback",
    );
    check_refused(
        "",
        &["train.model_options=5"],
        "--set: train.model_options = 5, but train.model_options is a section; \
         set its keys, e.g. train.model_options.hidden",
    );
    check_refused(
        "train = 3",
        &[],
        "pipeline.toml:1: train = 3, but train is a section; set its keys, e.g. train.model",
    );
    check_refused(
        "",
        &["source.cache.dir=x"],
        "--set: unknown setting `source.cache.dir`; \
         `source.cache` is a setting itself and has no keys below it",
    );
    check_refused(
        "[source]\ntime = \"t\"\n[source.cache]\ndir = \"x\"",
        &[],
        "pipeline.toml:4: unknown setting `source.cache.dir`; \
         `source.cache` is a setting itself and has no keys below it",
    );
    check_variable_refused(
        "MILLSTREAM_TRAIN",
        "3",
        "MILLSTREAM_TRAIN: train = 3, but train is a section; set its keys, e.g. train.model",
    );
}

#[test]
fn unknown_keys_name_where_they_stand_and_what_was_meant() {
    check_refused(
        "\n[train]\nepoch = 3",
        &[],
        "pipeline.toml:3: unknown setting `train.epoch`; did you mean `train.epochs`?",
    );
    check_refused(
        "[window]\nbatch_size = 3",
        &[],
        "pipeline.toml:2: unknown setting `window.batch_size`; did you mean `train.batch_size`?",
    );
    check_refused(
        "[trane]\nepochs = 3",
        &[],
        "pipeline.toml:1: unknown setting `trane`; did you mean `train`?",
    );
    check_refused(
        "[[scale.groups]]\ncolumn = [\"a\"]",
        &[],
        "pipeline.toml:1: scale.groups[1].column = [\"a\"] is unknown; did you mean `target.columns`?",
    );
    check_refused(
        "",
        &["train.epoch=3"],
        "--set: unknown setting `train.epoch`; did you mean `train.epochs`?",
    );
    check_refused(
        "",
        &["train.epochs"],
        "--set \"train.epochs\" is not KEY=VALUE, e.g. train.epochs=3",
    );
    check_refused(
        "[train.model_options]\nhiden = 3",
        &[],
        "pipeline.toml:2: unknown setting `train.model_options.hiden`; \
         did you mean `train.model_options.hidden`?",
    );
    check_variable_refused(
        "MILLSTREAM_TRAIN__EPOCH",
        "3",
        "MILLSTREAM_TRAIN__EPOCH: unknown setting `train.epoch`; did you mean `train.epochs`?",
    );
    check_variable_refused(
        "MILLSTREAM_TRAIN_EPOCHS",
        "3",
        "the environment variable MILLSTREAM_TRAIN_EPOCHS is no setting; \
         did you mean MILLSTREAM_TRAIN__EPOCHS?",
    );
}

#[test]
fn values_that_do_not_fit_are_refused_in_the_words_of_the_file() {
    check_refused(
        "[train]\nmodel = \"transformator\"",
        &[],
        &format!(
            "pipeline.toml:2: train.model = \"transformator\" is not one of: {}",
            choices("train.model")
        ),
    );
    check_refused(
        "",
        &["train.loss=3"],
        &format!("--set: train.loss = \"3\" is not one of: {}", choices("train.loss")),
    );
    check_refused(
        "[target]\ncolumns = \"close\"",
        &[],
        "pipeline.toml:2: target.columns = \"close\" must be a list: \
         write target.columns = [\"close\"]",
    );
    check_refused(
        "",
        &["target.columns=close"],
        "--set: target.columns = \"close\" must be a list: write --set 'target.columns=[\"close\"]'",
    );
    check_variable_refused(
        "MILLSTREAM_TARGET__COLUMNS",
        "close",
        "MILLSTREAM_TARGET__COLUMNS: target.columns = \"close\" must be a list: \
         write MILLSTREAM_TARGET__COLUMNS='[\"close\"]'",
    );
    check_refused(
        "",
        &["target.columns=[close]"],
        "--set: target.columns = \"[close]\" is no list: \
         write one like --set 'target.columns=[\"a\", \"b\"]'",
    );
    check_refused(
        "[scale.groups]\nclip = 3",
        &[],
        "pipeline.toml:1: scale.groups = { clip = 3 } must be a list of tables: \
         write [[scale.groups]] above each",
    );
    check_refused(
        "[[scale.groups]]\ncolumns = [\"a\"]\nmethod = \"z\"",
        &[],
        "pipeline.toml:1: scale.groups[1].method = \"z\" is not one of: \
         zscore, robust, minmax, rank_normal, log1p, none",
    );
    let whole = "must be a whole number";
    check_refused(
        "",
        &["train.epochs=many"],
        &format!("--set: train.epochs = \"many\" {whole} not below 0"),
    );
    check_refused(
        "",
        &["train.batch_size=0"],
        &format!("--set: train.batch_size = 0 {whole} above 0"),
    );
    check_refused(
        "",
        &["train.model_options.hidden=0"],
        &format!("--set: train.model_options.hidden = 0 {whole} above 0"),
    );
    check_refused(
        "",
        &["window.lookback=-1"],
        &format!("--set: window.lookback = -1 {whole} above 0"),
    );
    check_refused(
        "",
        &["window.lookback=1.5"],
        &format!("--set: window.lookback = 1.5 {whole} above 0"),
    );
    check_refused(
        "",
        &["train.epochs=5000000000"],
        &format!("--set: train.epochs = 5000000000 {whole} not below 0, at most 4294967295"),
    );
    check_refused(
        "[train]\nepochs = \"3\"",
        &[],
        &format!("pipeline.toml:2: train.epochs = \"3\" {whole} not below 0, without quotes"),
    );
    check_refused("", &["scale.clip=x"], "--set: scale.clip = \"x\" must be a number");
    check_refused("", &["scale.clip=nan"], "--set: scale.clip = nan must be a number");
    check_refused("", &["window.drop_last=1"], "--set: window.drop_last = 1 must be true or false");
    check_refused(
        "[source]\ntime = true",
        &[],
        "pipeline.toml:2: source.time = true must be text: write it in quotes",
    );
    check_refused(
        "[prefetch]\ndevice = \"gpu\"",
        &[],
        "pipeline.toml:2: prefetch.device = \"gpu\" does not work: \
         unknown device \"gpu\"; use \"auto\", \"cpu\" or \"cuda:0\"",
    );
    check_refused(
        "[run]\nthreads = 0",
        &[],
        "pipeline.toml:2: run.threads = 0 does not work: write \"auto\" or a whole number above 0",
    );
    check_refused(
        "\ntrain.epochs = 9223372036854775808",
        &[],
        "pipeline.toml:2: a number is too large",
    );
    check_refused(
        "",
        &["run.threads=1e300"],
        "--set: run.threads = 1e300 does not work: write \"auto\" or a whole number above 0",
    );
    let error = read("[train\nepochs = 3", &[], &[]).unwrap_err();
    assert!(error.starts_with("pipeline.toml:1: ") && !error.contains('\n'), "{error:?}");
    let url = r#"source={url="postgres://me:s3cr@t@host/db", series=["a"]}"#;
    assert!(!read("source.url = [\"s3cr\"]", &[], &[]).unwrap_err().contains("s3cr"));
    assert!(!read("", &[], &[url]).unwrap_err().contains("s3cr"));
}

#[test]
fn the_environment_is_read_with_care() {
    use std::os::unix::ffi::OsStringExt;
    let bad = || OsString::from_vec(vec![b'x', 0xff]);
    let read = |environment: Vec<(OsString, OsString)>| {
        Settings::read(None, environment, &[]).map_err(|error| error.to_string())
    };
    // What is not ours is not looked at, whatever it holds.
    read(vec![(bad(), "1".into()), ("HOME".into(), bad()), ("MILLSTREAM_TEST_X".into(), bad())])
        .unwrap();
    let error = read(vec![("MILLSTREAM_TRAIN__EPOCHS".into(), bad())]).unwrap_err();
    assert_eq!(error, "the environment variable MILLSTREAM_TRAIN__EPOCHS is not UTF-8 text");
    let twice = [("MILLSTREAM_TRAIN__EPOCHS", "3"), ("MILLSTREAM_TRAIN", "{epochs = 2}")];
    assert_eq!(
        read(variables(&twice)).unwrap_err(),
        "`train.epochs` is set by both MILLSTREAM_TRAIN and MILLSTREAM_TRAIN__EPOCHS; \
         keep one of them"
    );
}
