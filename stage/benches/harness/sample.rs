//! One measurement: what it took, and how a program measures itself.

use super::Failure;
use serde::{Deserialize, Serialize};
use std::{fs, mem::MaybeUninit, time::Instant};

/// What something took, and what it gave.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Sample<C> {
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
    /// What tells whether the result is right.
    #[serde(flatten)]
    pub(crate) content: C,
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
    pub(crate) fn stop<C: Default>(self) -> Result<Sample<C>, Failure> {
        let wall_s = self.start.elapsed().as_secs_f64();
        let peak_rss_mb = match self.whose {
            Whose::Own => Some(peak_rss_mb()?),
            Whose::Children => None,
        };
        let cpu_s = cpu_s(self.whose)? - self.cpu_s;
        Ok(Sample { wall_s, cpu_s, peak_rss_mb, ..Sample::default() })
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
