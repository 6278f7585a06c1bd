//! [`Request`]: what a reader is asked for.

use crate::{SourceSettings, files::SourceFile};

/// What to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) settings: &'a SourceSettings,
    /// Columns that must be there, features or not.
    pub(crate) required: &'a [String],
    /// The files that `source.path` means, as they were when the cache was asked for them.
    pub(crate) files: &'a [SourceFile],
}
