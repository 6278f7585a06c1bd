//! Binary cross-entropy of the direction: the output is the log-odds of "up".
//!
//! An outcome "up" (1) counts as 1, "down" (-1) as 0, and "no change" (0) as one half: as much up as
//! down, which draws the forecast to 0. That is what it is: forecasts are `2 * probability - 1`, from -1
//! to 1, as outcomes are.

use super::{MeanLoss, Outcomes};
use crate::{
    error::TrainError,
    settings::{TrainSettings, require},
};
use millstream_data::{CrossSection, Heads, Plan, TargetKind};
use millstream_model::Architecture;
use tch::{Reduction, TchError, Tensor};

pub(super) struct Bce;

impl MeanLoss for Bce {
    fn check_stream(&self, plan: &Plan, _: &dyn Architecture) -> Result<(), TrainError> {
        let direction = plan.schema.target_kind == TargetKind::Direction;
        let expected = "another unless target.kind = \"direction\"";
        require("train.loss", &"\"bce\"", direction, expected)?;
        let crossed = plan.scaling.targets.iter().any(|t| t.cross_section != CrossSection::None);
        let expected = "another unless target.cross_section = \"none\"";
        require("train.loss", &"\"bce\"", !crossed, expected)
    }

    fn heads(&self, _: &TrainSettings) -> Heads {
        Heads::Logit
    }

    fn mean(&self, outputs: &Tensor, came: &Outcomes<'_>) -> Result<Tensor, TchError> {
        let up = came.targets.f_add_scalar(1.0)?.f_mul_scalar(0.5)?;
        let none = None::<Tensor>;
        outputs.f_binary_cross_entropy_with_logits(
            &up,
            none.as_ref(),
            none.as_ref(),
            Reduction::Mean,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{super::check::*, *};
    use crate::{losses::Loss, sample};

    #[test]
    fn loss_and_gradient_are_those_of_the_definition() {
        let at = [-2.0, 0.0, 0.5, 3.0, -0.25, 1.0];
        let outcomes = [1.0, 1.0, -1.0, -1.0, 0.0, 0.0];
        let formula = |logits: &[f64]| {
            let loss = |(logit, outcome): (&f64, &f64)| {
                let (p, up) = (1.0 / (1.0 + (-logit).exp()), (outcome + 1.0) / 2.0);
                -(up * p.ln() + (1.0 - up) * (1.0 - p).ln())
            };
            logits.iter().zip(&outcomes).map(loss).sum::<f64>() / 6.0
        };
        let tensor =
            |values: [f64; 6]| Tensor::from_slice(&values.map(|x| x as f32)).view([3, 2, 1]);
        let (targets, heads) = (tensor(outcomes), Heads::Logit);
        let came = Outcomes { heads: &heads, targets: &targets, times: &[1, 2, 3] };
        let (loss, gradient) = with_gradient(&Bce, &tensor(at), &came);
        check_close(&[loss], &[formula(&at)]);
        check_close(&gradient, &differences(formula, &at));
    }

    #[test]
    fn what_has_no_direction_is_refused() {
        let settings = TrainSettings { loss: Loss::Bce, ..TrainSettings::default() };
        let check = |kind, cross_section, expected: &str| {
            let mut plan = sample::plan(1, [8, 0, 0]);
            plan.schema.target_kind = kind;
            plan.scaling.targets[0].cross_section = cross_section;
            let checked = settings.check_stream(&plan, &*settings.architecture().unwrap());
            let found = checked.map_or_else(|error| error.to_string(), |()| String::new());
            assert_eq!(found, expected);
        };
        let value = "train.loss is \"bce\", but must be another unless target.kind = \"direction\"";
        check(TargetKind::Value, CrossSection::None, value);
        check(TargetKind::Return, CrossSection::None, value);
        check(
            TargetKind::Direction,
            CrossSection::Rank,
            "train.loss is \"bce\", but must be another unless target.cross_section = \"none\"",
        );
        check(TargetKind::Direction, CrossSection::None, "");
    }
}
