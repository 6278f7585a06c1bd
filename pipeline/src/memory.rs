//! Keeping freed memory: the C allocator's settings for a program that trains.
//!
//! A training step on the CPU allocates and frees the same large tensors again and again. glibc
//! gives such blocks back to the system at once, so every step faults in fresh, zeroed pages: a
//! third of the time of an LSTM step here. This is the program's decision, not a library's, so it
//! lives here and not in the trainer.

/// Tells malloc to keep what is freed for the next step: call it first in `main`, before there are
/// threads. Peak memory stays what it was; without it, training on the CPU takes half as long again.
/// On systems without glibc it does nothing.
pub fn keep_freed_memory() {
    // The largest block that comes from the heap instead of a mapping of its own, and the most
    // that may stay free at the heap's end. Both are upper bounds, not reservations.
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: mallopt takes its lock and changes a threshold. An unsupported value is refused
        // and changes nothing.
        let _refused = unsafe { libc::mallopt(parameter, libc::c_int::MAX) } == 0;
    }
}

/// The most memory this process ever had, in MB.
pub(crate) fn peak_rss_mb() -> f64 {
    // The name of the program is in it, and need not be text.
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok()
    });
    kib.map_or(0.0, |kib| kib * 1024.0 / 1e6)
}
