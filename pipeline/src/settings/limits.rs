//! What no machine takes is refused with the settings, before anything is made of it.
//!
//! Here are numbers that are too large whatever the data is. What depends on the data is refused
//! when that is there, by whoever would allocate it.

use super::{Settings, SettingsError, Threads, fit};
use toml::Value;

/// More threads than any machine has for this; each has a stack.
const MOST_THREADS: usize = 1024;

/// Slots are there so that nobody waits, and a handful does that.
const MOST_SLOTS: usize = 1024;

/// Refuses the first setting that is beyond its limit.
pub(super) fn check(settings: &Settings) -> Result<(), SettingsError> {
    let run = &settings.run;
    let threads = [
        ("run.threads", run.threads),
        ("run.normalize_threads", run.normalize_threads),
        ("run.train_threads", run.train_threads),
    ];
    let counts = threads.into_iter().filter_map(|(key, threads)| match threads {
        Threads::Auto => None,
        Threads::Count(count) => Some((key, count.get(), MOST_THREADS, CORES)),
    });
    let slots = ("prefetch.depth", settings.prefetch.depth.get(), MOST_SLOTS, SLOTS);
    for (key, value, most, why) in counts.chain([slots]) {
        // A default has no origin, and is within its limits.
        if let (true, Some(origin)) = (value > most, settings.origin(key)) {
            let value = fit::shown(key, &Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
            let problem = format!("is too much: use at most {most}; {why}");
            let (origin, key) = (origin.clone(), key.to_owned());
            return Err(SettingsError::Value { origin, key, value, problem });
        }
    }
    Ok(())
}

const CORES: &str = "\"auto\" is one for every core";
const SLOTS: &str = "3 keep the device busy";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_takes_is_refused_with_what_would_do() {
        let check = |text: &str, expected: Option<&str>| {
            let read = Settings::read(None, [], &[text.to_owned()]);
            assert_eq!(read.err().map(|error| error.to_string()).as_deref(), expected);
        };
        check("run.threads=1024", None);
        check(
            "run.threads=1025",
            Some(
                "--set: run.threads = 1025 is too much: use at most 1024; \"auto\" is one for every core",
            ),
        );
        check(
            "prefetch.depth=9223372036854775807",
            Some(
                "--set: prefetch.depth = 9223372036854775807 is too much: use at most 1024; 3 keep the device busy",
            ),
        );
    }
}
