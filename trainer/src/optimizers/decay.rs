//! Which parameters weight decay is for: not those of one dimension, biases and the weights of norms,
//! which it keeps from fitting and does not make generalise better; unless that is asked for.

use crate::{
    error::TrainError,
    settings::{TrainSettings, not_negative, require},
};
use millstream_model::Parameters;

/// Parameters that take a step together.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    /// Their numbers.
    pub(super) members: Vec<usize>,
    /// Their weight decay.
    pub(super) decay: f64,
}

/// The keys of `[train]` that are about it.
pub(super) const KEYS: [&str; 2] = ["weight_decay", "decay_all"];

/// As few groups as there are values of decay.
pub(super) fn groups(parameters: &Parameters, settings: &TrainSettings) -> Vec<Group> {
    let decay = settings.decay();
    let all = 0..parameters.tensors.len();
    if decay == 0.0 || settings.decay_all {
        return vec![Group { members: all.collect(), decay }];
    }
    let (decayed, others) = all.partition(|&i| parameters.tensors[i].dim() > 1);
    let groups = [Group { members: decayed, decay }, Group { members: others, decay: 0.0 }];
    groups.into_iter().filter(|group| !group.members.is_empty()).collect()
}

/// # Errors
/// [`TrainError::Setting`] where it is negative or no number.
pub(super) fn check(settings: &TrainSettings) -> Result<(), TrainError> {
    let decay = settings.decay();
    require("train.weight_decay", &decay, not_negative(decay), "a number not below 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::SplitMix64;
    use tch::Device;

    fn check(shapes: &[&[usize]], decay: f64, decay_all: bool, expected: &[(&[usize], f64)]) {
        let mut parameters = Parameters::default();
        let mut random = SplitMix64::new(3);
        for shape in shapes {
            parameters.draw("p", shape, 1.0, &mut random, Device::Cpu).unwrap();
        }
        let settings =
            TrainSettings { weight_decay: Some(decay), decay_all, ..TrainSettings::default() };
        let group =
            |(members, decay): &(&[usize], f64)| Group { members: members.to_vec(), decay: *decay };
        let expected: Vec<Group> = expected.iter().map(group).collect();
        assert_eq!(groups(&parameters, &settings), expected, "{shapes:?}");
    }

    #[test]
    fn what_has_one_dimension_is_left_alone_unless_all_is_asked_for() {
        let shapes: [&[usize]; 4] = [&[2, 3], &[4], &[1, 1], &[2]];
        check(&shapes, 0.1, false, &[(&[0, 2], 0.1), (&[1, 3], 0.0)]);
        check(&shapes, 0.1, true, &[(&[0, 1, 2, 3], 0.1)]);
        check(&shapes, 0.0, false, &[(&[0, 1, 2, 3], 0.0)]);
        check(&[&[3], &[2]], 0.1, false, &[(&[0, 1], 0.0)]);
        check(&[&[3, 3]], 0.1, false, &[(&[0], 0.1)]);
    }
}
