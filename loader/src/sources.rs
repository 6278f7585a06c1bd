//! The sources: where rows can come from, one file each in `sources/`, and one line each below.
//!
//! A source's file holds its settings, its code and its tests, and implements [`ReadSource`]; nothing
//! else matches on [`SourceKind`]. Where it is a Cargo feature, its line says so: the kind is known
//! without it, too, and refused by the name of what to switch on. A program that embeds the loader
//! brings a source of its own as a [`millstream_stage::Source`] of panels, in the loader's place.

use crate::{
    LoadError, SourceSettings,
    progress::ProgressReporter,
    refresh::{Freshness, ReadRows},
    request::Request,
    table::Table,
};
use millstream_stage::Warnings;
use serde::{Deserialize, Serialize};

/// Makes [`SourceKind`] of the list, with the modules and the [`ReadSource`] that each kind means. The
/// name in the settings is that of the module.
macro_rules! sources {
    ($($kind:ident = $module:ident $(if feature $feature:literal)?, $doc:literal;)*) => {
        $($(#[cfg(feature = $feature)])? pub(crate) mod $module;)*

        /// Where rows come from.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum SourceKind {
            $(#[doc = $doc] $kind,)*
        }

        impl SourceKind {
            /// All kinds, those that were left out of this build too.
            pub const ALL: &[SourceKind] = &[$(SourceKind::$kind),*];

            /// The name used in the settings.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(SourceKind::$kind => stringify!($module),)*
                }
            }

            /// The source itself.
            ///
            /// # Errors
            /// [`LoadError::NotBuilt`] for one that was left out of this build.
            pub(crate) fn source(self) -> Result<&'static dyn ReadSource, LoadError> {
                match self {
                    $(
                        $(#[cfg(feature = $feature)])?
                        SourceKind::$kind => Ok(&$module::$kind),
                        $(
                            #[cfg(not(feature = $feature))]
                            SourceKind::$kind => {
                                Err(LoadError::NotBuilt { kind: self.name(), feature: $feature })
                            }
                        )?
                    )*
                }
            }
        }
    };
}

sources! {
    Generate = generate, "Made up, from a seed: needs no data at all.";
    Postgres = postgres if feature "postgres", "A table or query of a PostgreSQL database.";
    Parquet = parquet if feature "parquet", "Parquet files.";
    Csv = csv, "CSV files with a header line.";
}

/// What a source is to the loader.
pub(crate) trait ReadSource: Sync {
    /// The keys of `[source]` that it uses, besides those that all sources use.
    fn keys(&self) -> &'static [&'static str];

    /// How the names of its files end, where it reads the files of `source.path`.
    fn extension(&self) -> Option<&'static str> {
        None
    }

    /// Refuses settings that it cannot use, before anything is read.
    fn check(&self, _: &SourceSettings) -> Result<(), LoadError> {
        Ok(())
    }

    /// Rewrites what several spellings of its settings have in common, for the key of the cache, and
    /// takes out what must not be written down.
    fn canonicalize(&self, _: &mut SourceSettings) -> Result<(), LoadError> {
        Ok(())
    }

    /// What the server that it reads from says it is; `None` for one that asks no server.
    fn server_version(
        &self,
        _: &SourceSettings,
        _: &Warnings,
    ) -> Result<Option<String>, LoadError> {
        Ok(None)
    }

    /// Whether it still holds the rows that were read. Asked of what left a state with them alone; see
    /// [`Table::state`].
    fn freshness(
        &self,
        _: &Request<'_>,
        _: &ReadRows,
        _: &mut ProgressReporter<'_>,
    ) -> Result<Freshness, LoadError> {
        Ok(Freshness::Same)
    }

    /// Reads the wanted rows.
    fn read(
        &self,
        request: &Request<'_>,
        reporter: &mut ProgressReporter<'_>,
    ) -> Result<Table, LoadError>;
}

/// The source that needs nothing.
impl Default for SourceKind {
    fn default() -> Self {
        SourceKind::Generate
    }
}

impl SourceKind {
    /// Whether it is part of this build; see the crate's features.
    #[must_use]
    pub fn is_built(self) -> bool {
        self.source().is_ok()
    }

    /// Whether it uses this key of `[source]`, besides those that all kinds use. A kind that was left
    /// out of this build uses none.
    #[must_use]
    pub fn uses(self, key: &str) -> bool {
        self.source().is_ok_and(|source| source.keys().contains(&key))
    }

    /// How the names of its files end, where it reads the files of `source.path`.
    #[must_use]
    pub fn extension(self) -> Option<&'static str> {
        self.source().ok().and_then(ReadSource::extension)
    }
}

/// What the server that the settings name says it is: a way to find out whether it can be reached, and
/// what is to be said about the way there. `None` for a kind of source that asks no server.
///
/// # Errors
/// Whatever keeps it from being reached.
pub fn server_version(
    settings: &SourceSettings,
    warnings: &Warnings,
) -> Result<Option<String>, LoadError> {
    settings.kind.source()?.server_version(settings, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kind_is_that_in_the_settings() {
        for kind in SourceKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
