//! The folder of a backtest, which holds a run directory for every fold: how both are called, and that
//! nobody takes it for a run.

use crate::{
    error::Error,
    run_dir::{self, RunDirError},
    settings::{Overrides, Settings},
    texts::shell_word,
};
use millstream_data::Checksums;
use millstream_trainer::RunLock;
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// What says of a folder that it is a backtest, and how its folds are refitted.
pub(crate) const BACKTEST: &str = "backtest.json";

/// Begins the name of a backtest's folder.
pub(crate) const BACKTEST_NAME: &str = "backtest-";

/// Begins the name of a fold's folder.
const FOLD: &str = "fold-";

#[derive(Debug, thiserror::Error)]
enum FolderError {
    #[error(
        "{} is a backtest, which is a run for every fold: go on with it by millstream backtest --resume {}, or name the run of a fold, such as {}", .path.display(), shell_word(.path), .fold.display()
    )]
    Backtest { path: PathBuf, fold: PathBuf },
    #[error("{} is not a backtest: it has no {file}", .path.display())]
    NotABacktest { path: PathBuf, file: &'static str },
}

/// The name of a fold's folder.
pub(crate) fn fold_name(fold: usize) -> String {
    format!("{FOLD}{fold}")
}

/// Whether a folder is that of a backtest.
pub(crate) fn is_backtest(path: &Path) -> bool {
    path.join(BACKTEST).is_file()
}

/// The folders of a backtest's folds, as far as there are any, in order.
pub(crate) fn fold_folders(backtest: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(backtest).into_iter().flatten().flatten();
    let number = |name: &OsStr| name.to_str()?.strip_prefix(FOLD)?.parse::<usize>().ok();
    let folds = entries.filter_map(|entry| Some((number(&entry.file_name())?, entry.path())));
    let folds: BTreeMap<usize, PathBuf> = folds.collect();
    folds.into_values().collect()
}

/// Refuses a backtest where a run is wanted.
pub(crate) fn refuse(path: &Path) -> Result<(), Error> {
    if !is_backtest(path) {
        return Ok(());
    }
    let mut folds = fold_folders(path).into_iter().rev();
    let fold = folds.find(|fold| run_dir::has_model(fold));
    let fold = fold.unwrap_or_else(|| path.join(fold_name(1)));
    Err(Error::settings(FolderError::Backtest { path: path.to_owned(), fold }))
}

/// Takes the lock of a backtest that is to go on, and gives what its note says.
pub(crate) fn lock(path: &Path) -> Result<(RunLock, Vec<u8>), Error> {
    if !is_backtest(path) {
        let (path, file) = (path.to_owned(), BACKTEST);
        return Err(Error::settings(FolderError::NotABacktest { path, file }));
    }
    let lock = RunLock::take(path, &run_dir::program())?;
    let damaged = |source| Error::settings(RunDirError::Damaged { source });
    let note = Checksums::read(path).and_then(|sums| sums.read_file(BACKTEST)).map_err(damaged)?;
    Ok((lock, note))
}

/// The settings of a backtest that goes on: its own, which nothing may change.
pub(crate) fn settings(path: &Path, overrides: &Overrides) -> Result<Settings, Error> {
    run_dir::unchanged(Settings::of_run(&run_dir::settings_file(path)?, overrides)?)
}
