//! A setting without effect is an error: somebody set it, and would wait for what it never does.
//!
//! Only what can be known without data is judged here, and only what was set, to something else
//! than the default. One line of [`RULES`] a setting; which keys a source uses is the loader's to say, and
//! for its own options a model answers itself.

use super::{Origin, Settings, SettingsError, at, fit};
use millstream_data::{Reference, TargetKind};
use millstream_loader::SourceKind;
use millstream_model::Precision;
use millstream_normalize::{ScaleMethod, ShortSeries, SplitBy, WindowOrder};
use millstream_trainer::LossScale;

/// When a setting does nothing.
struct Rule {
    /// The setting, or a section for all settings in it.
    key: &'static str,
    idle: fn(&Settings) -> bool,
    /// What it would take to do something.
    needs: &'static str,
}

const fn rule(key: &'static str, idle: fn(&Settings) -> bool, needs: &'static str) -> Rule {
    Rule { key, idle, needs }
}

const RULES: &[Rule] = &[
    rule("source.symbols_required", |s| s.source.symbols.is_empty(), "source.symbols"),
    rule("target.delay", |s| s.target.kind == TargetKind::Value, CHANGE),
    rule("target.dead_band", |s| s.target.kind != TargetKind::Direction, DIRECTION),
    rule("window.pad", |s| s.window.short == ShortSeries::Skip, r#"window.short = "pad""#),
    rule("window.min_rows", |s| s.window.short == ShortSeries::Skip, r#"window.short = "pad""#),
    rule("window.segment", no_segments, "another train.model, one that reads segments"),
    rule("window.drop_last", |s| s.window.order == WindowOrder::ByTime, NOT_BY_TIME),
    rule("split.train", |s| s.split.train_end.is_some(), "split.train_end left out"),
    rule("split.validation", |s| s.split.validation_end.is_some(), "split.validation_end left out"),
    rule("split.embargo", |s| s.split.by == SplitBy::Series, r#"split.by = "time""#),
    rule("split.seed", |s| s.split.by == SplitBy::Time, r#"split.by = "series""#),
    rule("split.fold", |s| s.split.folds == 0, "split.folds above 0"),
    rule("split.walk", |s| s.split.folds == 0, "split.folds above 0"),
    rule("scale.per", nothing_fitted, r#"a scale.method other than "none""#),
    rule("scale.relative", nothing_relative, r#"a scale.reference other than "none""#),
    rule("scale.groups", empty_group, "in every group columns that it names"),
    rule("scale.groups", relative_to_nothing, "beside relative in a group a reference"),
    rule("train.weight_decay", no_weight_decay, "a train.optimizer that decays weights"),
    rule("train.decay_all", |s| s.train.decay() == 0.0, "train.weight_decay above 0"),
    rule("train.momentum", |s| !s.train.optimizer.reads("momentum"), SGD),
    rule("train.nesterov", no_momentum, MOMENTUM),
    rule("train.loss_scale", no_loss_scale, F16),
    rule("train.early_stop", never_stops, EPOCHS),
    rule("train.step_epochs", |s| !s.train.schedule.reads("step_epochs"), STEP),
    rule("train.patience", |s| !s.train.schedule.reads("patience"), PLATEAU),
    rule("train.rate_factor", |s| !s.train.schedule.reads("rate_factor"), LOWERED),
    rule("train.quantiles", |s| !s.train.loss.reads("quantiles"), QUANTILE),
    rule("train.model_options.segments", |s| s.window.segment.is_none(), "window.segment"),
    rule("run.threads", |s| s.run.shares_are_set(), THREADS),
];

const CHANGE: &str = r#"target.kind = "return" or "direction""#;
const DIRECTION: &str = r#"target.kind = "direction""#;
const NOT_BY_TIME: &str = r#"window.order = "global", "shards" or "none""#;
const SGD: &str = r#"train.optimizer = "sgd""#;
const MOMENTUM: &str = r#"train.optimizer = "sgd" with train.momentum above 0"#;
const F16: &str = r#"train.precision = "f16", whose losses alone are scaled by themselves"#;
const EPOCHS: &str = "train.epochs above it by 2, so that there are epochs to leave out";
const STEP: &str = r#"train.schedule = "step""#;
const PLATEAU: &str = r#"train.schedule = "plateau""#;
const LOWERED: &str = r#"train.schedule = "step" or "plateau""#;
const QUANTILE: &str = r#"train.loss = "quantile""#;
const THREADS: &str = r#"run.normalize_threads or run.train_threads to be "auto""#;

/// What a key of `[source]` needs that other kinds of source use and this one does not. One file may
/// hold the keys of several, of which `source.kind` chooses; but a flag or variable for another than
/// this is a mistake.
fn other_source(kind: SourceKind, key: &str) -> Option<String> {
    // Which keys a kind uses that is not part of this build is not known; the loader refuses it.
    let key = key.strip_prefix("source.").filter(|_| kind.is_built())?.split('.').next()?;
    let users = SourceKind::ALL.iter().filter(|kind| kind.uses(key));
    let mut names: Vec<String> = users.map(|kind| format!("{:?}", kind.name())).collect();
    names.sort_unstable();
    (!names.is_empty() && !kind.uses(key)).then(|| format!("source.kind = {}", names.join(" or ")))
}

fn no_segments(settings: &Settings) -> bool {
    settings.train.architecture().is_ok_and(|model| !model.reads_segments())
}

fn no_weight_decay(settings: &Settings) -> bool {
    !settings.train.optimizer.reads("weight_decay")
}

fn no_loss_scale(Settings { train, .. }: &Settings) -> bool {
    train.loss_scale == LossScale::None && train.precision != Precision::F16
}

/// The first epoch is better than none, so the earliest to stop after is one more than `early_stop`.
fn never_stops(Settings { train, .. }: &Settings) -> bool {
    train.early_stop > 0 && train.early_stop.saturating_add(1) >= train.epochs
}

fn no_momentum(Settings { train, .. }: &Settings) -> bool {
    !train.optimizer.reads("nesterov") || train.momentum == 0.0
}

fn nothing_fitted(Settings { scale, .. }: &Settings) -> bool {
    let fitted = |method| method != ScaleMethod::None;
    let mut groups = scale.groups.iter().filter(|group| group.per.is_none());
    !fitted(scale.method) && !groups.any(|group| group.method.is_some_and(fitted))
}

fn nothing_relative(Settings { scale, .. }: &Settings) -> bool {
    let mut groups = scale.groups.iter().filter(|group| group.relative.is_none());
    let named = |reference: &Reference| *reference != Reference::None;
    !named(&scale.reference) && !groups.any(|group| group.reference.as_ref().is_some_and(named))
}

fn empty_group(settings: &Settings) -> bool {
    settings.scale.groups.iter().any(|group| group.columns.is_empty())
}

fn relative_to_nothing(Settings { scale, .. }: &Settings) -> bool {
    scale.groups.iter().any(|group| {
        let reference = group.reference.as_ref().unwrap_or(&scale.reference);
        group.relative.is_some() && *reference == Reference::None
    })
}

/// Refuses the first setting of a section (`""` for all) that was set and does nothing.
pub(super) fn check(settings: &Settings, section: &str) -> Result<(), SettingsError> {
    let (values, defaults) = (settings.values(), settings.defaults_beside().values());
    let model = settings.train.architecture().ok();
    for (key, origin) in settings.origins.iter().filter(|(key, _)| key.starts_with(section)) {
        let is_default = at(&values, key) == at(&defaults, key);
        let from_file = matches!(origin, Origin::File { .. });
        let rule = RULES.iter().find(|rule| {
            let below = key.strip_prefix(rule.key);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
                && (rule.idle)(settings)
        });
        let other = other_source(settings.source.kind, key).filter(|_| !from_file);
        let option = key.strip_prefix("train.model_options.");
        let of_model = || model.as_ref()?.idle(option?);
        let needs =
            other.or_else(|| rule.map(|rule| rule.needs).or_else(of_model).map(str::to_owned));
        if let (false, Some(needs)) = (is_default, needs) {
            let value = at(&values, key).map_or_else(String::new, |value| fit::shown(key, value));
            let problem = format!("has no effect: it needs {needs}");
            let (origin, key) = (origin.clone(), key.clone());
            return Err(SettingsError::Value { origin, key, value, problem });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::shape::Shape, *};

    fn read(set: &[&str]) -> Result<(), String> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        let settings = Settings::read(None, [], &set).unwrap();
        super::check(&settings, "").map_err(|error| error.to_string())
    }

    /// A setting is refused alone, and taken with another.
    fn check(set: &str, expected: &str, with: &[&str]) {
        assert_eq!(read(&[set]).unwrap_err(), format!("--set: {expected}"));
        read(&[&[set], with].concat()).unwrap();
    }

    #[test]
    fn what_does_nothing_is_refused_and_what_it_needs_is_named() {
        check(
            "split.seed=3",
            r#"split.seed = 3 has no effect: it needs split.by = "series""#,
            &["split.by=series"],
        );
        check(
            "split.fold=2",
            "split.fold = 2 has no effect: it needs split.folds above 0",
            &["split.folds=2"],
        );
        check(
            "target.dead_band=0.5",
            r#"target.dead_band = 0.5 has no effect: it needs target.kind = "direction""#,
            &["target.kind=direction"],
        );
        check(
            "target.delay=1",
            r#"target.delay = 1 has no effect: it needs target.kind = "return" or "direction""#,
            &["target.kind=return"],
        );
        check(
            "window.min_rows=3",
            r#"window.min_rows = 3 has no effect: it needs window.short = "pad""#,
            &["window.short=pad"],
        );
        check(
            "scale.relative=ratio",
            r#"scale.relative = "ratio" has no effect: it needs a scale.reference other than "none""#,
            &["scale.reference=last"],
        );
        check(
            "train.model_options.dropout=0.5",
            "train.model_options.dropout = 0.5 has no effect: it needs train.model_options.layers above 1",
            &["train.model_options.layers=2"],
        );
        check(
            "source.path=x.csv",
            r#"source.path = "x.csv" has no effect: it needs source.kind = "csv" or "parquet""#,
            &["source.kind=csv"],
        );
        check(
            r#"scale.groups=[{columns=["a"], relative="ratio"}]"#,
            "scale.groups = [{ columns = [\"a\"], relative = \"ratio\" }] has no effect: \
             it needs beside relative in a group a reference",
            &["scale.reference=last"],
        );
        check(
            "train.momentum=0.5",
            r#"train.momentum = 0.5 has no effect: it needs train.optimizer = "sgd""#,
            &["train.optimizer=sgd"],
        );
        check(
            "train.nesterov=true",
            r#"train.nesterov = true has no effect: it needs train.optimizer = "sgd" with train.momentum above 0"#,
            &["train.optimizer=sgd"],
        );
        check(
            "train.patience=3",
            r#"train.patience = 3 has no effect: it needs train.schedule = "plateau""#,
            &["train.schedule=plateau"],
        );
        check(
            "train.rate_factor=0.1",
            r#"train.rate_factor = 0.1 has no effect: it needs train.schedule = "step" or "plateau""#,
            &["train.schedule=step"],
        );
        check(
            "train.quantiles=[0.25, 0.5]",
            r#"train.quantiles = [0.25, 0.5] has no effect: it needs train.loss = "quantile""#,
            &["train.loss=quantile"],
        );
        let all = read(&["train.optimizer=adam", "train.decay_all=true"]).unwrap_err();
        assert!(all.ends_with("has no effect: it needs train.weight_decay above 0"), "{all}");
        read(&["train.optimizer=adam", "train.weight_decay=0.1", "train.decay_all=true"]).unwrap();
        read(&["train.decay_all=true"]).unwrap();
        let transformer = "train.model=transformer";
        let segments = "train.model_options.segments=4";
        let error = read(&[transformer, segments]).unwrap_err();
        assert!(error.ends_with("segments = 4 has no effect: it needs window.segment"), "{error}");
        read(&[transformer, segments, "window.segment=sector"]).unwrap();
        assert!(read(&["window.segment=sector"]).unwrap_err().contains("train.model"));
        let threads = ["run.threads=3", "run.normalize_threads=1", "run.train_threads=2"];
        assert!(read(&threads).unwrap_err().contains("run.threads = 3 has no effect"));
        read(&threads[..2]).unwrap();
    }

    #[test]
    fn defaults_say_nothing_and_a_file_may_hold_several_sources() {
        read(&["split.seed=0", "window.pad=left", "source.generate.rows=220"]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        let sources = "[source]\nkind = \"csv\"\npath = \"x\"\nurl = \"host=h\"\ngenerate.rows = 9";
        std::fs::write(&file, sources).unwrap();
        let settings = Settings::read(Some(&file), [], &[]).unwrap();
        super::check(&settings, "").unwrap();
        let set = ["source.generate.rows=8".to_owned(), "split.seed=3".to_owned()];
        let settings = Settings::read(Some(&file), [], &set).unwrap();
        super::check(&settings, "train").unwrap();
        let error = super::check(&settings, "source").unwrap_err();
        let expected =
            r#"source.generate.rows = 8 has no effect: it needs source.kind = "generate""#;
        assert_eq!(error.to_string(), format!("--set: {expected}"));
    }

    #[test]
    fn rules_are_about_settings_that_there_are() {
        for Rule { key, .. } in RULES {
            assert!(Shape::settings().at(key).is_some(), "{key}");
        }
    }
}
