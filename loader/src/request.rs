//! [`Request`]: what a reader is asked for.

use crate::{SourceSettings, files::SourceFile};
use millstream_stage::Warnings;

/// What to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) settings: &'a SourceSettings,
    /// Columns that must be there, features or not.
    pub(crate) required: &'a [String],
    /// The files that `source.path` means, as they were when the cache was asked for them.
    pub(crate) files: &'a [SourceFile],
    /// Where to say what happened on the way; what must be known of the rows goes with them.
    pub(crate) warnings: &'a Warnings,
}
