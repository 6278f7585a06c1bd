//! An error in one line, for a warning: a person sees no chain of sources.

/// An error and its causes, as a person sees them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
