//! Settings: which value wins, what text means, and what a run keeps.

use super::*;
use millstream_normalize::ScaleGroup;

mod refused;

fn variables(environment: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    environment.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn words(set: &[&str]) -> Vec<String> {
    set.iter().map(|s| (*s).to_owned()).collect()
}

fn read(file: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Settings, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipeline.toml");
    std::fs::write(&path, file).unwrap();
    let settings = Settings::read(Some(&path), variables(environment), &words(set));
    let folder = format!("{}/", folder.path().display());
    settings.map_err(|error| Error::settings(error).to_string().replace(&folder, ""))
}

#[test]
fn the_committed_file_is_exactly_the_defaults() {
    let file = include_str!("../../../pipeline.toml");
    // Options of the default model are there as remarks, so that another may be chosen beside them.
    let set: Vec<&str> = file
        .lines()
        .map(|line| if line.contains("# lstm: ") { line.trim_start_matches("# ") } else { line })
        .collect();
    for file in [file, &set.join("\n")] {
        assert_eq!(read(file, &[], &[]).unwrap().values(), Settings::default().values());
    }
    let options = Settings::default().values()["train"]["model_options"].clone();
    let named = file.lines().filter(|line| line.contains("# lstm: ")).count();
    assert_eq!(options.as_table().unwrap().len(), named);
}

#[test]
fn the_committed_file_names_every_option_of_every_model() {
    let file = include_str!("../../../pipeline.toml");
    let (_, section) = file.split_once("[train.model_options]").unwrap();
    let Some(shape::Shape::Section(options)) = shape::Shape::settings().at("train.model_options")
    else {
        panic!("the options are a section")
    };
    for (name, _) in options {
        let named = section.lines().any(|line| line.starts_with(&format!("# {name} = ")));
        assert!(named, "pipeline.toml does not name train.model_options.{name}");
    }
}

#[test]
fn the_committed_file_names_every_setting() {
    let file = include_str!("../../../pipeline.toml");
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

#[test]
fn a_later_flag_wins_and_a_table_sets_its_keys() {
    let check = |set: &[&str], expected: (u32, u64)| {
        let train = read("", &[], set).unwrap().train;
        assert_eq!((train.epochs, train.seed), expected, "{set:?}");
    };
    // By a hash map it was one or the other, so once would prove nothing.
    for _ in 0..32 {
        check(&["train.epochs=2", "train={epochs=3, seed=4}"], (3, 4));
        check(&["train={epochs=3, seed=4}", "train.epochs=2"], (2, 4));
        check(&["train={epochs=3, seed=4}", "train={epochs=2}"], (2, 4));
        check(&["train.epochs=2", "train.epochs=3"], (3, 42));
    }
}

#[test]
fn what_text_means_depends_on_the_key() {
    let environment = [
        ("MILLSTREAM_SOURCE__CACHE", "007"),
        ("MILLSTREAM_SOURCE__SYMBOLS", r#"["a", "b"]"#),
        ("MILLSTREAM_SOURCE__FROM", "2015-01-01"),
        ("MILLSTREAM_TARGET__COLUMNS", "['x']"),
        ("MILLSTREAM_TRAIN__EPOCHS", "3"),
        ("MILLSTREAM_TRAIN__LEARNING_RATE", "1"),
        ("MILLSTREAM_WINDOW__DROP_LAST", "true"),
        ("MILLSTREAM_RUN__THREADS", "auto"),
        ("MILLSTREAM_RUN__TRAIN_THREADS", "2"),
        ("MILLSTREAM_SCALE__GROUPS", "[{columns = [\"a\"], clip = 2}]"),
        ("MILLSTREAM_SPLIT", "{embargo = 4}"),
        ("MILLSTREAM_TRAIN__MODEL_OPTIONS__HIDDEN", "8"),
    ];
    let settings = read("", &environment, &[]).unwrap();
    assert_eq!(settings.source.cache, "007");
    assert_eq!(settings.source.symbols, ["a", "b"]);
    assert_eq!(settings.source.from.as_deref(), Some("2015-01-01"));
    assert_eq!(settings.target.columns, ["x"]);
    assert_eq!((settings.train.epochs, settings.train.learning_rate), (3, 1.0));
    assert!(settings.window.drop_last);
    assert_eq!(settings.run.threads, Threads::Auto);
    assert_eq!(settings.run.train_threads, Threads::Count(NonZeroUsize::new(2).unwrap()));
    assert_eq!(settings.scale.groups[0].clip, Some(2.0));
    assert_eq!(settings.split.embargo, 4);
    let options = &settings.values()["train"]["model_options"];
    assert_eq!(options.to_string(), "{ dropout = 0.0, hidden = 8, layers = 1 }");

    let set = ["source.cache=007", "source.time=true", "source.from=20150101", "run.dir='1 2'"];
    let settings = read("", &[], &set).unwrap();
    assert_eq!((&*settings.source.cache, &*settings.source.time), ("007", "true"));
    assert_eq!(settings.source.from.as_deref(), Some("20150101"));
    assert_eq!(settings.run.dir, Path::new("1 2"));
    assert_eq!(read("", &[], &["source.cache="]).unwrap().source.cache, "");
}

#[test]
fn a_file_may_write_times_as_toml_does() {
    let file =
        "[source]\nfrom = 2015-01-01\nto = 20200101\n[split]\ntrain_end = 2017-06-26T10:00:00";
    let settings = read(file, &[], &[]).unwrap();
    assert_eq!(settings.source.from.as_deref(), Some("2015-01-01"));
    assert_eq!(settings.source.to.as_deref(), Some("20200101"));
    assert_eq!(settings.split.train_end.as_deref(), Some("2017-06-26T10:00:00"));
}

#[test]
fn what_changes_a_run_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let url = "source.url=postgres://me:s3cr@host/db";
    let set = ["train.epochs=3", "source.kind=postgres", url];
    std::fs::write(&file, read("", &[], &set).unwrap().to_toml()).unwrap();
    let changes = |environment: &[(&str, &str)], set: &[&str]| {
        let (settings, changes) =
            Settings::read_run(&file, variables(environment), &words(set)).unwrap();
        (settings, changes.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let same = [("MILLSTREAM_TRAIN__EPOCHS", "3"), ("MILLSTREAM_TRAIN__CLIP_NORM", "5e-1")];
    assert_eq!(changes(&same, &["train.weight_decay=0.01"]).1, [""; 0]);
    let (settings, lines) = changes(
        &[("MILLSTREAM_TRAIN__EPOCHS", "4"), ("MILLSTREAM_SOURCE__FROM", "2020-01-01")],
        &["train.loss=mae"],
    );
    assert_eq!(settings.train.epochs, 4);
    assert_eq!(
        lines,
        [
            "MILLSTREAM_SOURCE__FROM would change source.from from none to \"2020-01-01\"",
            "MILLSTREAM_TRAIN__EPOCHS would change train.epochs from 3 to 4",
            "--set would change train.loss from \"mse\" to \"mae\"",
        ]
    );
    // The run has kept no password: to give it again is no change.
    let (settings, lines) =
        changes(&[("MILLSTREAM_SOURCE__URL", "postgres://me:s3cr@host/db")], &[]);
    assert_eq!(lines, [""; 0]);
    assert_eq!(settings.source.url.as_deref(), Some("postgres://me:s3cr@host/db"));
}

/// Every parameter decayed in runs of before there was a choice.
#[test]
fn what_a_run_of_before_does_not_say_was_as_it_was_then() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    let text = read("", &[], &[]).unwrap().to_toml();
    let check = |text: &str, decay_all: bool| {
        std::fs::write(&file, text).unwrap();
        let (settings, changes) = Settings::read_run(&file, [], &[]).unwrap();
        assert_eq!((settings.train.decay_all, changes.len()), (decay_all, 0));
        assert_eq!(Settings::of_run_alone(&file).unwrap().train.decay_all, decay_all);
    };
    check(&text, false);
    let old: Vec<&str> = text.lines().filter(|line| !line.starts_with("decay_all")).collect();
    check(&old.join("\n"), true);
    let (_, changes) = Settings::read_run(&file, [], &words(&["train.decay_all=false"])).unwrap();
    assert_eq!(changes[0].to_string(), "--set would change train.decay_all from true to false");
}

#[test]
fn a_missing_file_is_named() {
    let error = Settings::read(Some(Path::new("no-such.toml")), [], &[]).unwrap_err();
    let line = Error::settings(error).to_string();
    assert!(line.starts_with("cannot read the settings file no-such.toml: "), "{line}");
}

#[test]
fn what_a_run_keeps_reads_back_the_same_without_the_password() {
    let mut settings = Settings::default();
    settings.source.url = Some("postgres://me:s3cr@t@host/db".to_owned());
    settings.source.query = Some("select *\n\tfrom \"t\" -- it's\n".to_owned());
    settings.scale.groups = vec![ScaleGroup { columns: vec!["a".into()], ..ScaleGroup::default() }];
    settings.run.threads = Threads::Count(NonZeroUsize::new(2).unwrap());
    let text = settings.to_toml();
    assert!(!text.contains("s3cr"), "{text}");
    let again = read(&text, &[], &[]).unwrap();
    settings.source.url = Some("postgres://me@host/db".to_owned());
    assert_eq!(again.values(), settings.values());
    settings.source.url = Some("host=h user=me password='s3cr t'".to_owned());
    assert!(!settings.to_toml().contains("s3cr"));
}

#[test]
fn what_a_run_keeps_says_where_each_value_came_from() {
    let environment = [("MILLSTREAM_TRAIN__SEED", "3"), ("MILLSTREAM_TARGET__COLUMNS", "['a']")];
    let settings = read("[train]\n\nbatch_size = 8", &environment, &["train.epochs=4"]).unwrap();
    let text = settings.to_toml();
    let check = |setting: &str, origin: &str| {
        let line = text.lines().find(|line| line.starts_with(setting)).unwrap();
        let (value, remark) = line.split_once('#').unwrap();
        assert_eq!(value.trim(), setting);
        assert!(remark.ends_with(origin), "{line}");
    };
    check("batch_size = 8", "pipeline.toml:3");
    check("seed = 3", " MILLSTREAM_TRAIN__SEED");
    check("columns = [\"a\"]", " MILLSTREAM_TARGET__COLUMNS");
    check("epochs = 4", " --set");
    check("learning_rate = 0.001", " default");
    assert_eq!(read(&text, &[], &[]).unwrap().values(), settings.values());
}
