//! The `[train]` section: what can be set, its defaults and its ranges.
//!
//! Where a value comes from (file, environment, command line) is not known here.

use crate::{
    error::TrainError, learner::steps_per_epoch, loss_scale::LossScale, losses::Loss,
    nonfinite::Nonfinite, optimizers::OptimizerKind, schedules::Schedule,
};
use millstream_data::{ForecastColumns, Heads, Padding, Phase, Plan, available_memory};
use millstream_model::{Architecture, ModelError, ModelKind, ModelOptions, Precision, Shape};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};

/// How to train: made by `Default`, and changed field by field.
///
/// Written out, it has the weight decay and every option of its model, also where they were left at
/// their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, remote = "Self")]
#[non_exhaustive]
pub struct TrainSettings {
    /// Which model; `lstm` by default.
    pub model: ModelKind,
    /// Passes over the training windows; 5 by default.
    pub epochs: u32,
    /// Windows in a batch; 256 by default.
    pub batch_size: NonZeroUsize,
    /// The full learning rate; 1e-3 by default.
    pub learning_rate: f64,
    /// How the learning rate changes; `cosine` by default.
    pub schedule: Schedule,
    /// Steps at first over which the rate rises from 0 in a straight line; 0 by default.
    pub warmup: u64,
    /// Of `step`: epochs between two reductions of the rate; 1 by default.
    pub step_epochs: NonZeroU32,
    /// Of `plateau`: epochs without a lower validation loss after which the rate is reduced; 2 by default.
    pub patience: NonZeroU32,
    /// Of `step` and `plateau`: what the rate is multiplied by; 0.5 by default.
    pub rate_factor: f64,
    /// How gradients become steps; `adamw` by default.
    pub optimizer: OptimizerKind,
    /// How strongly weights are drawn to 0: of `adamw` by itself, of the others as a part of the gradient.
    /// Left out, the optimizer's own: 0.01 of `adamw`, 0 of the others; see [`decay`](Self::decay).
    pub weight_decay: Option<f64>,
    /// Whether parameters of one dimension, biases and norms, are drawn to 0 too; false by default.
    pub decay_all: bool,
    /// Of `sgd`: how much of the step before is taken again; 0.9 by default.
    pub momentum: f64,
    /// Of `sgd`: whether momentum looks ahead; false by default.
    pub nesterov: bool,
    /// What is made small; `mse` by default.
    pub loss: Loss,
    /// Of `quantile`: which, rising, with 0.5, the forecast, among them; 0.1, 0.5 and 0.9 by default.
    pub quantiles: Vec<f64>,
    /// Largest norm of all gradients together; 0.5 by default, 0 switches clipping off.
    pub clip_norm: f64,
    /// Batches whose gradients make one step; 1 by default.
    pub accumulate: NonZeroU32,
    /// Which numbers the model computes with, to learn and to forecast; `f32` by default.
    pub precision: Precision,
    /// What the loss is multiplied by before its gradients are taken; `auto` by default.
    pub loss_scale: LossScale,
    /// What becomes of a step whose loss or gradients are no numbers; `stop` by default.
    pub nonfinite: Nonfinite,
    /// How much of itself the average of the weights keeps in a step, below 1; 0, for no average, by
    /// default.
    pub ema: f64,
    /// Epochs without a lower validation loss after which training ends; 0, for never, by default.
    pub early_stop: u32,
    /// Seed of the initial weights, dropout and (in normalize) the order of windows; 42 by default.
    pub seed: u64,
    /// Steps between log lines; 100 by default.
    pub log_every: NonZeroU64,
    /// Whether TensorBoard is shown histograms of the weights, one of each after every epoch; false by
    /// default.
    pub histograms: bool,
    /// The model's own settings; those that are left out have its defaults.
    pub model_options: ModelOptions,
}

const fn size(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("a default is not zero")
}

impl Default for TrainSettings {
    fn default() -> Self {
        TrainSettings {
            model: ModelKind::default(),
            epochs: 5,
            batch_size: const { size(256) },
            learning_rate: 1e-3,
            schedule: Schedule::default(),
            warmup: 0,
            step_epochs: NonZeroU32::MIN,
            patience: const { NonZeroU32::new(2).expect("a default is not zero") },
            rate_factor: 0.5,
            optimizer: OptimizerKind::default(),
            weight_decay: None,
            decay_all: false,
            momentum: 0.9,
            nesterov: false,
            loss: Loss::default(),
            quantiles: vec![0.1, 0.5, 0.9],
            clip_norm: 0.5,
            accumulate: NonZeroU32::MIN,
            precision: Precision::default(),
            loss_scale: LossScale::default(),
            nonfinite: Nonfinite::default(),
            ema: 0.0,
            early_stop: 0,
            seed: 42,
            log_every: const { NonZeroU64::new(100).expect("a default is not zero") },
            histograms: false,
            model_options: ModelOptions::default(),
        }
    }
}

impl TrainSettings {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the first key that is out of range.
    pub fn validate(&self) -> Result<(), TrainError> {
        require("train.epochs", &self.epochs, self.epochs >= 1, "at least 1")?;
        let rate = self.learning_rate;
        require("train.learning_rate", &rate, rate.is_finite() && rate > 0.0, "a number above 0")?;
        self.optimizer.listed().check(self)?;
        self.schedule.listed().check(self)?;
        self.loss.listed().check(self)?;
        let norm = self.clip_norm;
        require(
            "train.clip_norm",
            &norm,
            not_negative(norm),
            "a number not below 0 (0 = no clipping)",
        )?;
        self.loss_scale.check()?;
        let ema = self.ema;
        require("train.ema", &ema, (0.0..1.0).contains(&ema), "at least 0 and below 1")?;
        let model = self.architecture()?;
        model.check()?;
        // Of one value a row and a batch of one, as long as the data is not known.
        match available_memory() {
            None => Ok(()),
            Some(available) => Ok(model.check_room(&Shape::LEAST, available)?),
        }
    }

    /// The model that is asked for.
    ///
    /// # Errors
    /// The options are not those of the model.
    pub fn architecture(&self) -> Result<Box<dyn Architecture>, ModelError> {
        self.model.architecture(&self.model_options)
    }

    /// What the outputs of the model are to stand for, by its loss.
    #[must_use]
    pub fn heads(&self) -> Heads {
        self.loss.listed().heads(self)
    }

    /// The weight decay that is asked for, or the optimizer's own.
    #[must_use]
    pub fn decay(&self) -> f64 {
        self.weight_decay.unwrap_or_else(|| self.optimizer.listed().weight_decay())
    }

    /// The settings that a run has kept, where they may be older than some keys: what it does not say
    /// was then as it is here, whatever the default is now.
    #[must_use]
    pub fn as_kept(mut self, says: impl Fn(&str) -> bool) -> Self {
        // Every parameter was.
        self.decay_all |= !says("decay_all");
        self
    }

    /// Checks what only the stream can tell.
    ///
    /// # Errors
    /// [`TrainError::Setting`] with the key that this stream rules out.
    pub(crate) fn check_stream(
        &self,
        plan: &Plan,
        model: &dyn Architecture,
    ) -> Result<(), TrainError> {
        let steps = steps_per_epoch(plan, self.accumulate.get()).saturating_mul(plan.epochs.into());
        self.schedule.check_stream(self, plan, steps)?;
        self.loss.listed().check_stream(plan, model)?;
        let heads = self.heads();
        if !heads.are_values() {
            // Whoever cut the windows knew of no more columns than a forecast and its outcome.
            let crossed = plan.scaling.targets.first().map(|target| target.cross_section);
            ForecastColumns::of(&plan.schema, crossed.unwrap_or_default(), &heads)?;
        }
        let judged = self.early_stop == 0 || plan.batches(Phase::Validation) > 0;
        let expected = "0 where there are no validation windows (split.validation)";
        require("train.early_stop", &self.early_stop, judged, expected)?;
        // A batch is weighted by its share of the group's windows, which must be known when the
        // first of them comes; with batches of any size it is not.
        let usable = !plan.by_time || self.accumulate.get() == 1;
        let expected = "1 with window.order = \"by_time\", whose batches differ in size";
        require("train.accumulate", &self.accumulate, usable, expected)?;
        let segment = plan.schema.segment.as_deref().unwrap_or_default();
        let read = segment.is_empty() || model.reads_segments();
        let name = model.name();
        let expected =
            format!("left out with train.model = \"{name}\", which does not read segments");
        require("window.segment", &format!("{segment:?}"), read, &expected)?;
        let whole = plan.schema.padding == Padding::None || model.reads_padding();
        let expected = format!(
            "\"skip\" with train.model = \"{name}\", which has no place for padding, on whichever side (window.pad)"
        );
        require("window.short", &"\"pad\"", whole, &expected)?;
        Ok(model.check_segments(plan.segments)?)
    }
}

impl Serialize for TrainSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut resolved = self.clone();
        resolved.model_options = self.model_options.with_defaults(self.model);
        resolved.weight_decay = Some(self.decay());
        TrainSettings::serialize(&resolved, serializer)
    }
}

impl<'de> Deserialize<'de> for TrainSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        TrainSettings::deserialize(deserializer)
    }
}

pub(crate) fn not_negative(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

pub(crate) fn require(
    key: &'static str,
    value: &dyn ToString,
    holds: bool,
    expected: &str,
) -> Result<(), TrainError> {
    if holds {
        return Ok(());
    }
    Err(TrainError::Setting { key, value: value.to_string(), expected: expected.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(key: &str, value: usize) -> ModelOptions {
        serde_json::from_value(serde_json::json!({ key: value })).unwrap()
    }

    fn check(change: impl FnOnce(&mut TrainSettings), expected: &str) {
        let mut settings = TrainSettings::default();
        change(&mut settings);
        assert_eq!(settings.validate().unwrap_err().to_string(), expected);
    }

    #[test]
    fn ranges_are_checked_and_the_key_is_named() {
        TrainSettings::default().validate().unwrap();
        check(|s| s.epochs = 0, "train.epochs is 0, but must be at least 1");
        check(
            |s| s.learning_rate = f64::NAN,
            "train.learning_rate is NaN, but must be a number above 0",
        );
        check(
            |s| s.weight_decay = Some(-1.0),
            "train.weight_decay is -1, but must be a number not below 0",
        );
        let sgd = |s: &mut TrainSettings| s.optimizer = OptimizerKind::Sgd;
        check(
            |s| {
                sgd(s);
                s.momentum = 1.0;
            },
            "train.momentum is 1, but must be at least 0 and below 1",
        );
        check(
            |s| {
                sgd(s);
                (s.momentum, s.nesterov) = (0.0, true);
            },
            "train.nesterov is true, but must be false where train.momentum is 0",
        );
        for schedule in [Schedule::Step, Schedule::Plateau] {
            check(
                |s| (s.schedule, s.rate_factor) = (schedule, 1.0),
                "train.rate_factor is 1, but must be a number above 0 and below 1",
            );
        }
        check(
            |s| s.clip_norm = -0.5,
            "train.clip_norm is -0.5, but must be a number not below 0 (0 = no clipping)",
        );
        let dropout = "train.model_options.dropout is 1, but must be at least 0 and below 1";
        check(|s| s.model_options = options("dropout", 1), dropout);
    }

    #[test]
    fn a_model_beyond_all_memory_is_refused_before_it_is_made() {
        for extreme in [1 << 31, 1 << 40, usize::MAX] {
            for key in ["hidden", "layers"] {
                let model_options = options(key, extreme);
                let settings = TrainSettings { model_options, ..TrainSettings::default() };
                let error = settings.validate().unwrap_err().to_string();
                let expected =
                    format!("train.model_options.{key} is {extreme}, but must be at most ");
                assert!(error.starts_with(&expected), "{error}");
            }
        }
    }

    #[test]
    fn batches_of_any_size_are_not_accumulated() {
        let mut plan = crate::sample::plan(1, [8, 0, 0]);
        let accumulate = 2.try_into().unwrap();
        let mut settings = TrainSettings { accumulate, ..TrainSettings::default() };
        settings.check_stream(&plan, &*settings.architecture().unwrap()).unwrap();
        plan.by_time = true;
        let error = settings
            .check_stream(&plan, &*settings.architecture().unwrap())
            .unwrap_err()
            .to_string();
        let expected = "train.accumulate is 2, but must be 1 with window.order = \"by_time\", \
                        whose batches differ in size";
        assert_eq!(error, expected);
        settings.accumulate = NonZeroU32::MIN;
        settings.check_stream(&plan, &*settings.architecture().unwrap()).unwrap();
    }

    #[test]
    fn a_segment_column_that_the_model_does_not_read_is_refused() {
        let mut plan = crate::sample::plan(1, [8, 0, 0]);
        plan.schema.segment = Some("sector".into());
        let settings = TrainSettings::default();
        let error = settings
            .check_stream(&plan, &*settings.architecture().unwrap())
            .unwrap_err()
            .to_string();
        let expected = "window.segment is \"sector\", but must be left out with train.model = \
                        \"lstm\", which does not read segments";
        assert_eq!(error, expected);
    }

    #[test]
    fn padding_that_the_model_has_no_place_for_is_refused() {
        let mut plan = crate::sample::plan(1, [8, 0, 0]);
        plan.schema.padding = Padding::Left;
        for (model, expected) in [(ModelKind::Lstm, ""), (ModelKind::Nlinear, "\"nlinear\"")] {
            let settings = TrainSettings { model, ..TrainSettings::default() };
            let checked = settings.check_stream(&plan, &*settings.architecture().unwrap());
            let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
            let refused = "window.short is \"pad\", but must be \"skip\" with train.model = ";
            let expected = if expected.is_empty() { "" } else { &format!("{refused}{expected}") };
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn names_are_those_of_the_settings_file() {
        let text =
            r#"{"model":"lstm","schedule":"constant","loss":"huber","model_options":{"hidden":8}}"#;
        let settings: TrainSettings = serde_json::from_str(text).unwrap();
        assert_eq!(settings.schedule, Schedule::Constant);
        assert_eq!(settings.loss, Loss::Huber);
        assert_eq!(settings.model_options, options("hidden", 8));
        assert_eq!(settings.epochs, 5);
        let written = serde_json::to_value(&settings).unwrap();
        let expected = serde_json::json!({ "hidden": 8, "layers": 1, "dropout": 0.0 });
        assert_eq!(written["model_options"], expected);
    }

    #[test]
    fn weight_decay_is_the_optimizers_own_unless_it_is_set() {
        let check = |text: &str, expected: f64| {
            let settings: TrainSettings = serde_json::from_str(text).unwrap();
            assert_eq!(settings.decay(), expected, "{text}");
            assert_eq!(serde_json::to_value(&settings).unwrap()["weight_decay"], expected);
        };
        check("{}", 0.01);
        check(r#"{"optimizer":"adam"}"#, 0.0);
        check(r#"{"optimizer":"sgd","weight_decay":0.1}"#, 0.1);
    }

    fn check_refused(text: &str, expected: &str) {
        let error = serde_json::from_str::<TrainSettings>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn wrong_names_are_refused_with_the_right_ones() {
        check_refused(
            r#"{"model":"lstn"}"#,
            "unknown variant `lstn`, expected one of `lstm`, `gru`",
        );
        check_refused(r#"{"loss":"l2"}"#, "expected one of `mse`, `mae`, `huber`");
        check_refused(r#"{"epoch":3}"#, "unknown field `epoch`");
        check_refused(r#"{"accumulate":0}"#, "nonzero");
        check_refused(r#"{"model_options":{"hiden":3}}"#, "unknown field `hiden`");
        check_refused(r#"{"model_options":{"hidden":0}}"#, "nonzero");
    }
}
