//! Settings: precedence, and one clear line for everything that can be wrong with them.

use super::*;

fn read(file: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipeline.toml");
    std::fs::write(&path, file).unwrap();
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    Settings::read(Some(&path), environment, &set).map_err(|e| Failure::settings(e).to_string())
}

#[test]
fn the_committed_file_is_exactly_the_defaults() {
    let settings = read(include_str!("../../pipeline.toml"), &[], &[]).unwrap();
    assert_eq!(settings, Settings::default());
}

#[test]
fn the_committed_file_names_every_setting() {
    let file = include_str!("../../pipeline.toml");
    let known = serde_json::to_value(Settings::default()).unwrap();
    let mut tables: Vec<(&String, &serde_json::Value)> =
        known.as_object().unwrap().iter().collect();
    while let Some((name, table)) = tables.pop() {
        for (key, value) in table.as_object().unwrap() {
            if value.is_object() {
                tables.push((key, value));
                continue;
            }
            let named = file.lines().any(|line| {
                line.trim_start_matches("# ").split('=').next().is_some_and(|k| k.trim() == key)
            });
            assert!(named, "pipeline.toml does not name {name}.{key}");
        }
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let file = "[train]\nepochs = 2\nseed = 2\nlearning_rate = 0.5";
    let environment = [
        ("MILLSTREAM_TRAIN__EPOCHS", "3"),
        ("MILLSTREAM_TRAIN__SEED", "3"),
        ("MILLSTREAM_TEST_POSTGRES_URL", "x"),
    ];
    let settings = read(file, &environment, &["train.epochs=4"]).unwrap();
    let train = &settings.train;
    assert_eq!((train.epochs, train.seed, train.learning_rate), (4, 3, 0.5));
}

#[test]
fn flags_take_lists_and_plain_text() {
    let set =
        ["target.columns=[\"a\", \"b\"]", "source.time=day", "run.threads=3", "run.dir=/tmp/x=y"];
    let settings = read("", &[], &set).unwrap();
    assert_eq!(settings.target.columns, ["a", "b"]);
    assert_eq!(settings.source.time, "day");
    assert_eq!(settings.run.threads, Threads::Count(NonZeroUsize::new(3).unwrap()));
    assert_eq!(settings.run.dir, Path::new("/tmp/x=y"));
}

fn check_refused(file: &str, set: &[&str], expected: &[&str]) {
    let error = read(file, &[], set).unwrap_err();
    for part in expected {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
    assert!(!error.contains('\n'), "{error:?} is more than one line");
}

#[test]
fn bad_settings_name_the_key_and_where_it_stands() {
    check_refused(
        "[train]\nepoch = 3",
        &[],
        &["train.epoch", "pipeline.toml", "did you mean `train.epochs`?"],
    );
    check_refused(
        "[window]\nbatch_size = 3",
        &[],
        &["window.batch_size", "did you mean `train.batch_size`?"],
    );
    check_refused("[trane]\nepochs = 3", &[], &["trane", "pipeline.toml", "did you mean `train`?"]);
    check_refused("[train]\nepochs = \"many\"", &[], &["train.epochs", "pipeline.toml", "many"]);
    check_refused("[train]\nbatch_size = 0", &[], &["train.batch_size", "pipeline.toml", "0"]);
    check_refused("[window]\nlookback = -1", &[], &["window.lookback", "pipeline.toml"]);
    check_refused("[train]\nmodel = \"gpt\"", &[], &["train.model", "gpt"]);
    check_refused(
        "[prefetch]\ndevice = \"gpu\"",
        &[],
        &["prefetch.device", "unknown device \"gpu\""],
    );
    check_refused("[run]\nthreads = 0", &[], &["run.threads", "above 0"]);
    check_refused("[train\nepochs = 3", &[], &["pipeline.toml:1"]);
    check_refused("", &["train.epochs"], &["--set \"train.epochs\" is not KEY=VALUE"]);
    check_refused(
        "",
        &["train.epoch=3"],
        &["train.epoch", "--set", "did you mean `train.epochs`?"],
    );
}

#[test]
fn a_missing_file_is_named() {
    let error = Settings::read(Some(Path::new("no-such.toml")), HashMap::new(), &[]).unwrap_err();
    let line = Failure::settings(error).to_string();
    assert!(line.starts_with("cannot read the settings file no-such.toml: "), "{line}");
}

#[test]
fn what_a_run_keeps_reads_back_the_same_without_the_password() {
    let mut settings = Settings::default();
    settings.source.url = Some("postgres://me:s3cr@t@host/db".to_owned());
    settings.run.threads = Threads::Count(NonZeroUsize::new(2).unwrap());
    let text = settings.to_toml();
    assert!(!text.contains("s3cr"), "{text}");
    let again = read(&text, &[], &[]).unwrap();
    settings.source.url = Some("postgres://me@host/db".to_owned());
    assert_eq!(again, settings);
    settings.source.url = Some("host=h user=me password='s3cr t'".to_owned());
    assert!(!settings.to_toml().contains("s3cr"));
}
