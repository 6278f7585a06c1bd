//! [`Kept`]: tables of an earlier run, in the form in which the server copies them out and in.
//!
//! Making up a hundred million values takes the server much longer than reading them back. The files
//! (close to two gigabytes, or a tenth of that for a first look) are in cargo's folder for benches,
//! under a name that stands for the very statements that made them.

use crate::{harness::Failure, workload::BenchTable};
use postgres::Transaction;
use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// The folder of tables that were made by some statements.
pub(crate) struct Kept {
    folder: PathBuf,
}

impl Kept {
    pub(crate) fn of(statements: &[String]) -> Self {
        let mut hasher = DefaultHasher::new();
        statements.hash(&mut hasher);
        let name = format!("bench-postgres-{:016x}", hasher.finish());
        Kept { folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) }
    }

    /// Whether all of these were kept.
    pub(crate) fn has(&self, tables: &[BenchTable]) -> bool {
        tables.iter().all(|table| self.file(*table).exists())
    }

    /// Fills a table with the rows that were kept, in their order.
    pub(crate) fn restore(
        &self,
        to: &mut Transaction<'_>,
        table: BenchTable,
    ) -> Result<(), Failure> {
        let copy = format!("COPY {} FROM STDIN (FORMAT binary)", table.name());
        let mut rows = to.copy_in(&copy)?;
        io::copy(&mut File::open(self.file(table))?, &mut rows)?;
        rows.finish()?;
        Ok(())
    }

    /// Keeps the rows of a table for later runs.
    pub(crate) fn keep(
        &self,
        from: &mut Transaction<'_>,
        table: BenchTable,
    ) -> Result<(), Failure> {
        fs::create_dir_all(&self.folder)?;
        let mut file = NamedTempFile::new_in(&self.folder)?;
        let copy = format!("COPY {} TO STDOUT (FORMAT binary)", table.name());
        io::copy(&mut from.copy_out(&copy)?, &mut file)?;
        file.persist(self.file(table))?;
        Ok(())
    }

    fn file(&self, table: BenchTable) -> PathBuf {
        self.folder.join(table.name()).with_extension("copy")
    }
}
