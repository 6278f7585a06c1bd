//! Whether a run that goes on is the same run: its settings, its data and its stream are compared
//! with what the checkpoint says, field by field, so that a new field is compared too.

use crate::{error::TrainError, settings::TrainSettings, state::StreamShape};
use millstream_data::{DataSchema, Scaling};
use millstream_model::ModelDescription;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Compares with the checkpoint at `path`; every error is [`TrainError::Changed`], with the first
/// thing that differs and both its values.
#[derive(Debug)]
pub(crate) struct Unchanged<'a> {
    pub(crate) path: &'a Path,
}

/// Where two values first differ.
struct Difference {
    at: String,
    saved: String,
    given: String,
}

impl Unchanged<'_> {
    /// All that decides what the weights become. How often a line is logged, and what is shown, does not.
    pub(crate) fn settings(
        &self,
        saved: &TrainSettings,
        given: &TrainSettings,
    ) -> Result<(), TrainError> {
        let TrainSettings { log_every, histograms, .. } = *given;
        let saved = TrainSettings { log_every, histograms, ..saved.clone() };
        self.same(&saved, given, |at| format!("train.{at}"))
    }

    /// Which model, and how large; of the settings' own, they have said so before.
    pub(crate) fn model(
        &self,
        saved: &ModelDescription,
        given: &ModelDescription,
    ) -> Result<(), TrainError> {
        self.same(saved, given, |at| format!("the model's {at}"))
    }

    /// The data, and how it is shown to the model.
    pub(crate) fn schema(&self, saved: &DataSchema, given: &DataSchema) -> Result<(), TrainError> {
        // Of other data, anything else may differ too.
        self.same(&saved.fingerprint, &given.fingerprint, |_| "the data".to_owned())?;
        let mut given = given.clone();
        if saved.train_part.is_none() {
            // It is of before these were kept.
            (given.train_part, given.validation_part) = (None, None);
        }
        self.same(saved, &given, schema_field)
    }

    /// What the split, the order and the stride make of the data.
    pub(crate) fn stream(
        &self,
        saved: &StreamShape,
        given: &StreamShape,
    ) -> Result<(), TrainError> {
        self.same(saved, given, |at| match at.split_once('.') {
            Some((what, part)) => format!("the number of {part} {what}"),
            None if at == "by_time" => "window.order = \"by_time\"".to_owned(),
            None => format!("train.{at} of the stream"),
        })
    }

    /// What was fitted on the training part.
    pub(crate) fn scaling(&self, saved: &Scaling, given: &Scaling) -> Result<(), TrainError> {
        self.same(saved, given, |at| format!("the scaling, {at},"))
    }

    fn same<T: Serialize>(
        &self,
        saved: &T,
        given: &T,
        name: impl FnOnce(&str) -> String,
    ) -> Result<(), TrainError> {
        let value = |side: &T| serde_json::to_value(side).expect("plain structs always serialise");
        match difference(&value(saved), &value(given)) {
            None => Ok(()),
            Some(Difference { at, saved, given }) => {
                let path = PathBuf::from(self.path);
                Err(TrainError::Changed { path, what: name(&at), saved, given })
            }
        }
    }
}

/// A field of the schema as the settings file has it.
fn schema_field(at: &str) -> String {
    let field = at.split('.').next().unwrap_or(at);
    match field {
        "lookback" | "horizon" | "min_rows" | "segment" => format!("window.{field}"),
        "padding" => "window.pad".to_owned(),
        "dead_band" | "delay" => format!("target.{field}"),
        "target_kind" => "target.kind".to_owned(),
        "targets" => "target.columns".to_owned(),
        "features" => "source.features".to_owned(),
        "series_column" => "source.series".to_owned(),
        "time_column" => "source.time".to_owned(),
        "test_start" => "the start of the test part".to_owned(),
        "test_end" => "the end of the test part".to_owned(),
        _ => format!("{at} of the data"),
    }
}

/// The first difference, depth first.
fn difference(saved: &Value, given: &Value) -> Option<Difference> {
    let inside = |key: &str, saved: &Value, given: &Value| {
        let found = difference(saved, given)?;
        let dot = if found.at.is_empty() { "" } else { "." };
        Some(Difference { at: format!("{key}{dot}{}", found.at), ..found })
    };
    match (saved, given) {
        (Value::Object(saved), Value::Object(given)) => {
            let mut keys: Vec<&String> = saved.keys().chain(given.keys()).collect();
            keys.sort();
            keys.dedup();
            let side = |map: &serde_json::Map<String, Value>, key: &str| {
                map.get(key).cloned().unwrap_or(Value::Null)
            };
            keys.into_iter().find_map(|key| inside(key, &side(saved, key), &side(given, key)))
        }
        (Value::Array(a), Value::Array(b))
            if a.len() == b.len() && a.iter().all(Value::is_object) =>
        {
            a.iter().zip(b).enumerate().find_map(|(number, (saved, given))| {
                let name = saved["name"].as_str().map_or_else(|| number.to_string(), str::to_owned);
                inside(&name, saved, given)
            })
        }
        (saved, given) if saved == given => None,
        (saved, given) => Some(Difference {
            at: String::new(),
            saved: saved.to_string(),
            given: given.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use millstream_data::TargetKind;

    fn check(compare: impl FnOnce(&Unchanged<'_>) -> Result<(), TrainError>, expected: &str) {
        let error = compare(&Unchanged { path: Path::new("r") }).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot resume r: {expected}; ")), "{error}");
    }

    fn check_setting(change: impl FnOnce(&mut TrainSettings), expected: &str) {
        let saved = TrainSettings::default();
        let mut given = saved.clone();
        change(&mut given);
        check(|unchanged| unchanged.settings(&saved, &given), expected);
    }

    #[test]
    fn every_setting_that_changes_weights_is_compared() {
        use crate::{
            loss_scale::LossScale, losses::Loss, nonfinite::Nonfinite, schedules::Schedule,
        };
        use millstream_model::Precision;
        check_setting(|s| s.epochs = 6, "train.epochs was 5 and is now 6");
        check_setting(|s| s.learning_rate = 0.1, "train.learning_rate was 0.001 and is now 0.1");
        let constant = "train.schedule was \"cosine\" and is now \"constant\"";
        check_setting(|s| s.schedule = Schedule::Constant, constant);
        check_setting(|s| s.loss = Loss::Mae, "train.loss was \"mse\" and is now \"mae\"");
        let quantiles = "train.quantiles was [0.1,0.5,0.9] and is now [0.25,0.5]";
        check_setting(|s| s.quantiles = vec![0.25, 0.5], quantiles);
        check_setting(|s| s.weight_decay = Some(0.0), "train.weight_decay was 0.01 and is now 0.0");
        check_setting(|s| s.decay_all = true, "train.decay_all was false and is now true");
        check_setting(|s| s.momentum = 0.5, "train.momentum was 0.9 and is now 0.5");
        check_setting(|s| s.nesterov = true, "train.nesterov was false and is now true");
        check_setting(|s| s.warmup = 3, "train.warmup was 0 and is now 3");
        check_setting(|s| s.rate_factor = 0.1, "train.rate_factor was 0.5 and is now 0.1");
        let three = 3.try_into().unwrap();
        check_setting(|s| s.step_epochs = three, "train.step_epochs was 1 and is now 3");
        check_setting(|s| s.patience = three, "train.patience was 2 and is now 3");
        check_setting(|s| s.clip_norm = 1.0, "train.clip_norm was 0.5 and is now 1.0");
        let four = 4.try_into().unwrap();
        check_setting(|s| s.batch_size = four, "train.batch_size was 256 and is now 4");
        let bf16 = "train.precision was \"f32\" and is now \"bf16\"";
        check_setting(|s| s.precision = Precision::Bf16, bf16);
        let scale = "train.loss_scale was \"auto\" and is now 8.0";
        check_setting(|s| s.loss_scale = LossScale::From(8.0), scale);
        let skip = "train.nonfinite was \"stop\" and is now \"skip\"";
        check_setting(|s| s.nonfinite = Nonfinite::Skip, skip);
        check_setting(|s| s.ema = 0.5, "train.ema was 0.0 and is now 0.5");
        check_setting(|s| s.early_stop = 3, "train.early_stop was 0 and is now 3");
        let two = 2.try_into().unwrap();
        check_setting(|s| s.accumulate = two, "train.accumulate was 1 and is now 2");
        check_setting(|s| s.seed = 7, "train.seed was 42 and is now 7");
        let check_option = |key: &str, value: serde_json::Value, expected: &str| {
            let options = serde_json::json!({ key: value });
            let change =
                |s: &mut TrainSettings| s.model_options = serde_json::from_value(options).unwrap();
            check_setting(change, &format!("train.model_options.{key} was {expected}"));
        };
        check_option("hidden", 4.into(), "64 and is now 4");
        check_option("layers", 4.into(), "1 and is now 4");
        check_option("dropout", 0.5.into(), "0.0 and is now 0.5");
    }

    #[test]
    fn logging_more_often_or_saying_a_default_changes_no_weight() {
        let saved = TrainSettings::default();
        let mut given = TrainSettings { log_every: 1.try_into().unwrap(), ..saved.clone() };
        given.histograms = true;
        given.model_options = given.model_options.with_defaults(given.model);
        given.weight_decay = Some(given.decay());
        Unchanged { path: Path::new("r") }.settings(&saved, &given).unwrap();
    }

    #[test]
    fn the_data_and_how_it_was_prepared_are_compared() {
        let saved = sample::plan(2, [8, 4, 4]);
        let same = Unchanged { path: Path::new("r") };
        same.schema(&saved.schema, &saved.schema).unwrap();
        same.scaling(&saved.scaling, &saved.scaling).unwrap();
        let shape = StreamShape::of(&saved);
        same.stream(&shape, &shape).unwrap();

        let mut given = saved.clone();
        (given.schema.fingerprint, given.schema.lookback) = ("g".into(), 9);
        let expected = "the data was \"f\" and is now \"g\"";
        check(|unchanged| unchanged.schema(&saved.schema, &given.schema), expected);
        given.schema.fingerprint.clone_from(&saved.schema.fingerprint);
        let expected = "window.lookback was 2 and is now 9";
        check(|unchanged| unchanged.schema(&saved.schema, &given.schema), expected);
        let mut given = saved.clone();
        given.schema.target_kind = TargetKind::Return;
        let expected = "target.kind was \"value\" and is now \"return\"";
        check(|unchanged| unchanged.schema(&saved.schema, &given.schema), expected);
        let mut given = saved.clone();
        given.schema.delay = 1;
        let expected = "target.delay was 0 and is now 1";
        check(|unchanged| unchanged.schema(&saved.schema, &given.schema), expected);
        let mut given = saved.clone();
        given.schema.test_start = 5;
        let expected = "the start of the test part was 0 and is now 5";
        check(|unchanged| unchanged.schema(&saved.schema, &given.schema), expected);

        let mut given = saved.clone();
        given.windows.validation = 3;
        let expected = "the number of validation windows was 4 and is now 3";
        check(|unchanged| unchanged.stream(&shape, &StreamShape::of(&given)), expected);
        let mut given = saved.clone();
        given.batches.train = 1;
        let expected = "the number of train batches was 2 and is now 1";
        check(|unchanged| unchanged.stream(&shape, &StreamShape::of(&given)), expected);
        let mut given = saved.clone();
        given.by_time = true;
        let expected = "window.order = \"by_time\" was false and is now true";
        check(|unchanged| unchanged.stream(&shape, &StreamShape::of(&given)), expected);
        let mut given = saved.clone();
        given.epochs = 3;
        let expected = "train.epochs of the stream was 2 and is now 3";
        check(|unchanged| unchanged.stream(&shape, &StreamShape::of(&given)), expected);

        let mut given = saved.clone();
        given.scaling.targets[0].fit.offset = 1.5;
        let expected = "the scaling, targets.y.offset, was 1.0 and is now 1.5";
        check(|unchanged| unchanged.scaling(&saved.scaling, &given.scaling), expected);
        let mut given = saved.clone();
        given.scaling.method = "robust".into();
        let expected = "the scaling, method, was \"zscore\" and is now \"robust\"";
        check(|unchanged| unchanged.scaling(&saved.scaling, &given.scaling), expected);
    }
}
