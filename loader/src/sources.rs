//! The sources: where rows can come from.

pub(crate) mod csv;
pub(crate) mod generate;
pub(crate) mod parquet;
pub(crate) mod postgres;
