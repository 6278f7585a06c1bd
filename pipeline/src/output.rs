//! Where `predict --output` may write, and in what format. `-` is stdout, a URL a table in PostgreSQL.
//!
//! A place that holds something else than forecasts is not written to: the files of a run, the cache,
//! or the very source.

use crate::{error::Error, watch::Watch};
use millstream_loader::SourceSettings;
use millstream_predictor::{Output, PredictError};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The name of the output that is no file: JSON lines on stdout.
const STDOUT: &str = "-";

/// The file of a run that ends like forecasts and is none.
const JOURNAL: &str = "metrics.jsonl";

#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[cfg(not(feature = "postgres"))]
    #[error(
        "this build has no PostgreSQL; name a file with --output, or build with the cargo feature \"postgres\""
    )]
    NoPostgres,
    #[error(
        "--output {}: the forecasts of all folds go to a file; name one, e.g. --output forecasts.parquet", .path.display()
    )]
    NoFile { path: PathBuf },
    #[error("--output {0}")]
    Format(PredictError),
    #[error("--output {} is {what}; name another file, e.g. --output forecasts.csv", .path.display())]
    Taken { path: PathBuf, what: &'static str },
}

/// Whose the forecasts are.
#[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "files do not say"))]
pub(crate) struct Owner<'a> {
    pub(crate) run: &'a Path,
    /// The name of its architecture.
    pub(crate) model: &'a str,
}

/// The output that the user named.
pub(crate) fn named(
    path: &Path,
    owner: &Owner<'_>,
    source: &SourceSettings,
    watch: &Watch,
) -> Result<Output, Error> {
    match path.to_str().filter(|text| is_url(text)) {
        Some(url) => table(url, owner, watch),
        None => check(path, owner.run, source).map_err(Error::settings),
    }
}

/// The file that the user named for a table that is made of files and read again.
pub(crate) fn named_file(
    path: &Path,
    folder: &Path,
    source: &SourceSettings,
) -> Result<Output, Error> {
    if is_stdout(path) || path.to_str().is_some_and(is_url) {
        return Err(Error::settings(OutputError::NoFile { path: path.to_owned() }));
    }
    check(path, folder, source).map_err(Error::settings)
}

/// Schemes are the same in capitals.
fn is_url(text: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|found| found.eq_ignore_ascii_case(scheme))
    })
}

/// Whether forecasts go to stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Whether a name does not say that the file is Parquet, which it is.
pub(crate) fn is_parquet_by_default(path: &Path) -> bool {
    !path.to_str().is_some_and(is_url) && Output::ending(path).is_none()
}

#[cfg(feature = "postgres")]
fn table(url: &str, owner: &Owner<'_>, watch: &Watch) -> Result<Output, Error> {
    use millstream_predictor::PostgresTable;
    let run = real(owner.run);
    let run = run.file_name().unwrap_or_default().to_string_lossy();
    let table = PostgresTable::from_url(url, owner.model, &run).map_err(Error::settings)?;
    let (table, hold) = table.with_hold();
    watch.stop_handle().hold(hold);
    let warnings = watch.warnings().clone();
    Ok(table.warning(move |line| warnings.warn(line)).into_output())
}

#[cfg(not(feature = "postgres"))]
fn table(_: &str, _: &Owner<'_>, _: &Watch) -> Result<Output, Error> {
    Err(Error::settings(OutputError::NoPostgres))
}

fn check(path: &Path, run: &Path, source: &SourceSettings) -> Result<Output, OutputError> {
    if is_stdout(path) {
        return Ok(Output::json_lines(io::stdout()));
    }
    let taken = |what| Err(OutputError::Taken { path: path.to_owned(), what });
    let place = real(path);
    if is_read(&place, source) {
        return taken("what the rows are read from");
    }
    if !source.cache.is_empty() && place.starts_with(real(Path::new(&source.cache))) {
        return taken("in the cache");
    }
    let own = place.strip_prefix(real(run));
    if own.is_ok_and(|own| own.components().count() > 1 || !is_forecasts(own)) {
        return taken("a file of the run");
    }
    Output::file(path).map_err(OutputError::Format)
}

/// Of the files in a run's folder, those that end like forecasts are, but for its journal.
fn is_forecasts(name: &Path) -> bool {
    if name == Path::new(JOURNAL) {
        return false;
    }
    let ending = name.extension().and_then(|ending| ending.to_str());
    Output::endings().flatten().any(|known| ending == Some(known))
}

/// Whether the source reads this file, or would if it were there.
fn is_read(place: &Path, source: &SourceSettings) -> bool {
    let (Some(extension), Some(path)) = (source.kind.extension(), &source.path) else {
        return false;
    };
    let read = real(Path::new(path));
    if read.is_dir() {
        let ends = place.extension().is_some_and(|ending| ending == extension);
        return ends && place.parent() == Some(&read);
    }
    read == place || glob::Pattern::new(path).is_ok_and(|glob| glob.matches_path(place))
}

/// A path with links followed, as far as it exists.
fn real(path: &Path) -> PathBuf {
    if let Ok(real) = fs::canonicalize(path) {
        return real;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().and_then(|parent| fs::canonicalize(parent).ok()), path.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forecasts_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("run/checkpoints/best")).unwrap();
        fs::create_dir_all(at("cache")).unwrap();
        fs::create_dir_all(at("data")).unwrap();
        for file in
            ["run/config.toml", "run/checkpoints/best/model.safetensors", "data/p.csv", "x.csv"]
        {
            fs::write(at(file), "").unwrap();
        }
        let check = |source: &str, output: &str, expected: &str| {
            let source = SourceSettings {
                kind: millstream_loader::SourceKind::Csv,
                path: Some(at(source).to_str().unwrap().to_owned()),
                cache: at("cache").to_str().unwrap().to_owned(),
                ..SourceSettings::default()
            };
            let found = super::check(&at(output), &at("run"), &source);
            let found =
                found.map_or_else(|error| error.to_string(), |output| format!("{output:?}"));
            assert!(found.contains(expected), "{output}: {found}");
        };
        check("data/p.csv", "run/config.toml", "a file of the run");
        check("data/p.csv", "run/checkpoints/best/model.safetensors", "a file of the run");
        check("data/p.csv", "run/checkpoints/best/new.parquet", "a file of the run");
        check("data/p.csv", "run/metrics.jsonl", "a file of the run");
        check("data/p.csv", "run/mine.csv", "csv ");
        check("data/p.csv", "run/mine.jsonl", "jsonl ");
        check("data/p.csv", "x.ndjson", "jsonl ");
        check("data/p.csv", "cache/key/shard-0000.arrow", "in the cache");
        check("data/p.csv", "data/p.csv", "what the rows are read from");
        check("data", "data/new.csv", "what the rows are read from");
        check("data", "data/new.parquet", "parquet ");
        check("*.csv", "x.csv", "what the rows are read from");
        check("data/p.csv", "x.CSV", "csv ");
        check("data/p.csv", "x", "parquet ");
        check("data/p.csv", ".jsonl", "jsonl ");
        check("data/p.csv", ".CSV", "csv ");
        check("data/p.csv", ".hidden", "parquet ");
        check("data/p.csv", "x.json", "ends in .json");
    }
}
