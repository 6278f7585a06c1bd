//! [`CacheDamage`]: a cached panel that is not as it was written.

use std::path::PathBuf;

/// What is damaged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheDamage {
    /// A cached shard is not as it was written.
    #[error(
        "{path} is damaged: MiB {mib} does not have the checksum it was written with; run `millstream import` to write it again"
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Which MiB of it, from 0.
        mib: usize,
    },
    /// A cached shard has the wrong length.
    #[error(
        "{path} is damaged from MiB {mib} on: it has {found} bytes and was written with {expected}; run `millstream import` to write it again"
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// Which MiB the shorter of the two ends in, from 0.
        mib: u64,
        /// Its length.
        found: u64,
        /// The length it was written with.
        expected: u64,
    },
    /// A cached shard is whole but is not a shard.
    #[error("{path} is not a panel shard; run `millstream import` to write it again")]
    NotAShard {
        /// The file.
        path: PathBuf,
        /// What Arrow said.
        source: arrow::error::ArrowError,
    },
    /// A manifest is there but is not one.
    #[error("{path} is not a panel manifest; run `millstream import` to write it again")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A manifest is not as it was written.
    #[error(
        "{path} is damaged: it does not have the checksum it was written with; run `millstream import` to write it again"
    )]
    ManifestChecksum {
        /// The file.
        path: PathBuf,
    },
}
