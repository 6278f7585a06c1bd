//! Sharing the machine's threads out among the stages.

use crate::settings::{RunSettings, Threads};
use std::num::NonZeroUsize;

/// How many threads each stage's pool gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) normalize: NonZeroUsize,
    pub(crate) train: NonZeroUsize,
}

/// Shares out `run.threads` (by default every core): on the CPU the model computes on all of
/// them, and filling batches, which takes a few percent of that time, gets a quarter.
pub(crate) fn share(settings: &RunSettings) -> Share {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let pick = |threads: Threads, auto: NonZeroUsize| match threads {
        Threads::Auto => auto,
        Threads::Count(count) => count,
    };
    let all = pick(settings.threads, cores);
    let quarter = NonZeroUsize::new(all.get() / 4).unwrap_or(NonZeroUsize::MIN);
    Share {
        normalize: pick(settings.normalize_threads, quarter),
        train: pick(settings.train_threads, all),
    }
}

/// Gives libtorch, for the whole process, its share.
pub(crate) fn claim(settings: &RunSettings) {
    let threads = share(settings).train.get();
    tch::set_num_threads(i32::try_from(threads).unwrap_or(i32::MAX));
}

/// The same where the settings name a number: that asks for it.
pub(crate) fn claim_what_is_set(settings: &RunSettings) {
    if [settings.threads, settings.train_threads].iter().any(|threads| *threads != Threads::Auto) {
        claim(settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shared_out_and_never_zero() {
        let count = |n| Threads::Count(NonZeroUsize::new(n).unwrap());
        let check = |settings: RunSettings, expected| {
            let share = share(&settings);
            assert_eq!((share.normalize.get(), share.train.get()), expected);
        };
        let base = RunSettings::default();
        check(RunSettings { threads: count(1), ..base.clone() }, (1, 1));
        check(RunSettings { threads: count(16), ..base.clone() }, (4, 16));
        let own = RunSettings { normalize_threads: count(3), train_threads: count(5), ..base };
        check(own, (3, 5));
    }
}
