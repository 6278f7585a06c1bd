//! Which cases repeat: run twice at one commit on an idle machine, their ratios agree.
//!
//! A case is stable when ours and its floor are limited by the same thing (the memory, the
//! arithmetic, a clock), so that what disturbs one disturbs the other. The rest is measured and
//! shown, but a difference of a few percent between two of its figures proves nothing.

/// By name, `<stage>/<case>`.
const STABLE: [&str; 3] =
    ["normalize/fill-shuffled", "normalize/fit-apply", "normalize/fill-reference-last"];

/// Whether a difference in a case's ratio means something.
pub(super) fn is_stable(name: &str) -> bool {
    STABLE.contains(&name)
}
