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
    /// Whether to look at what a database holds, to tell later whether it has changed.
    pub(crate) watch: bool,
    /// Where to say what happened on the way; what must be known of the rows goes with them.
    pub(crate) warnings: &'a Warnings,
}

impl Request<'_> {
    /// What to call a table or query in messages.
    pub(crate) fn place(&self) -> String {
        match &self.settings.table {
            Some(table) => format!("table {table}"),
            None => "the query".to_owned(),
        }
    }
}
