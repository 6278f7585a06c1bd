//! The clock: the one place where it is asked what time it is by the calendar.

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, UTC.
pub(crate) fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Now.
pub(crate) fn now() -> i64 {
    micros(SystemTime::now())
}
