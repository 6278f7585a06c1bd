//! One measured load: what a child reports, and how it measures itself.
//!
//! CPU time is that of the client alone. The server's own is the same whoever reads, and part of
//! nobody's figures.

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::{fs, mem::MaybeUninit, time::Instant};

/// What one load took and gave.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
    /// `None` where another program did the work.
    pub(crate) peak_rss_mb: Option<f64>,
    /// Bytes that came in, or that the result takes.
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
    /// What was measured, in its own words.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(flatten)]
    pub(crate) content: Content,
}

/// What tells whether a reader read the right thing; `None` for one that looks at no values.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Content {
    #[serde(default)]
    pub(crate) rows: Option<u64>,
    #[serde(default)]
    pub(crate) sum_close_pct: Option<f64>,
    #[serde(default)]
    pub(crate) nulls_f001: Option<u64>,
}

impl Content {
    /// Whether everything is known that can be compared.
    pub(crate) fn is_whole(&self) -> bool {
        self.rows.is_some() && self.sum_close_pct.is_some() && self.nulls_f001.is_some()
    }

    /// How this differs from what the server says is in the table. Sums depend on the order of
    /// adding in their last digits only.
    pub(crate) fn mismatch(&self, truth: &Content) -> Option<String> {
        let same_sum = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        let differs = (self.rows, truth.rows).both(|a, b| a != b)
            || (self.nulls_f001, truth.nulls_f001).both(|a, b| a != b)
            || (self.sum_close_pct, truth.sum_close_pct).both(|a, b| !same_sum(a, b));
        differs.then(|| format!("gave {self}, the table has {truth}"))
    }
}

trait Both<T> {
    /// Whether both are known and `test` holds for them.
    fn both(self, test: impl FnOnce(T, T) -> bool) -> bool;
}

impl<T> Both<T> for (Option<T>, Option<T>) {
    fn both(self, test: impl FnOnce(T, T) -> bool) -> bool {
        self.0.zip(self.1).is_some_and(|(a, b)| test(a, b))
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
        let rows = known(self.rows.map(|rows| rows.to_string()));
        let sum = known(self.sum_close_pct.map(|sum| sum.to_string()));
        let nulls = known(self.nulls_f001.map(|nulls| nulls.to_string()));
        write!(f, "rows {rows}, sum of close_pct {sum}, NULLs in f001 {nulls}")
    }
}

/// Whose CPU time to take.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    Own,
    /// That of all programs that this process started and waited for.
    Children,
}

/// A running measurement.
pub(crate) struct Clock {
    whose: Whose,
    cpu_s: f64,
    start: Instant,
}

impl Clock {
    pub(crate) fn start(whose: Whose) -> Result<Clock, Failure> {
        Ok(Clock { whose, cpu_s: cpu_s(whose)?, start: Instant::now() })
    }

    /// Ends the measurement. To be called when the result is complete and still there.
    pub(crate) fn stop(self) -> Result<Sample, Failure> {
        let wall_s = self.start.elapsed().as_secs_f64();
        let peak_rss_mb = match self.whose {
            Whose::Own => Some(peak_rss_mb()?),
            Whose::Children => None,
        };
        Ok(Sample {
            wall_s,
            cpu_s: cpu_s(self.whose)? - self.cpu_s,
            peak_rss_mb,
            ..Sample::default()
        })
    }
}

fn cpu_s(whose: Whose) -> Result<f64, Failure> {
    let who = match whose {
        Whose::Own => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
    };
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` that lives through the call.
    if unsafe { libc::getrusage(who, usage.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: it was all zeros, which is a valid `rusage`, and the call has filled it.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Ok(seconds(usage.ru_utime) + seconds(usage.ru_stime))
}

/// The most memory this process ever had. Not `ru_maxrss`: that starts from the parent's.
fn peak_rss_mb() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0 / 1e6).ok_or_else(|| "no VmHWM in /proc/self/status".into())
}
