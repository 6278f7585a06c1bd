//! Reading a checkpoint while its run goes on: the folder may be replaced at any moment, and is then
//! read again, so that what is read is all of one checkpoint.

use crate::error::PredictError;
use millstream_data::{ChecksumError, Checksums, folder_aside};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The files of a checkpoint, each what was written there.
#[derive(Debug)]
pub(crate) struct Files<const N: usize> {
    /// Where they were found.
    pub(crate) folder: PathBuf,
    pub(crate) contents: [Vec<u8>; N],
}

/// Which folder has a name, and since when: another that takes its place has another number, or has
/// been renamed at another time.
type Identity = Option<(u64, u64, i64, i64)>;

/// Reads files of a checkpoint.
///
/// # Errors
/// One is missing or damaged.
pub(crate) fn read<const N: usize>(
    folder: &Path,
    names: [&str; N],
) -> Result<Files<N>, PredictError> {
    loop {
        let before = identity(folder);
        // Between the two renames of a system that cannot exchange names it is there.
        let aside = folder_aside(folder);
        let found = if before.is_none() && aside.is_dir() { &aside } else { folder };
        match read_at(found, names) {
            Ok(contents) => return Ok(Files { folder: found.to_owned(), contents }),
            Err(error) if identity(folder) == before => return Err(error.into()),
            // What was read may be half of the old and half of the new.
            Err(_) => {}
        }
    }
}

fn read_at<const N: usize>(folder: &Path, names: [&str; N]) -> Result<[Vec<u8>; N], ChecksumError> {
    let checksums = Checksums::read(folder)?;
    let mut contents = [const { Vec::new() }; N];
    for (contents, name) in contents.iter_mut().zip(names) {
        *contents = checksums.read_file(name)?;
    }
    Ok(contents)
}

fn identity(folder: &Path) -> Identity {
    let found = fs::metadata(folder).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_data::{partial_folder, replace_folder};

    fn checkpoint(folder: &Path, text: &str) {
        fs::create_dir(folder).unwrap();
        let mut checksums = Checksums::default();
        for name in ["a", "b"] {
            fs::write(folder.join(name), text.repeat(2000)).unwrap();
            checksums.add(name, text.repeat(2000).as_bytes());
        }
        fs::write(folder.join(Checksums::FILE), checksums.to_text()).unwrap();
    }

    #[test]
    fn all_of_it_is_of_one_checkpoint_however_often_it_is_replaced() {
        let run = tempfile::tempdir().unwrap();
        let best = run.path().join("best");
        checkpoint(&best, "0");
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 1..1000 {
                    let partial = partial_folder(&best);
                    checkpoint(&partial, &(number % 10).to_string());
                    if number % 2 == 0 {
                        replace_folder(&partial, &best).unwrap();
                        continue;
                    }
                    // As a system does it that cannot exchange names.
                    let old = folder_aside(&best);
                    fs::rename(&best, &old).unwrap();
                    fs::rename(&partial, &best).unwrap();
                    fs::remove_dir_all(old).unwrap();
                }
            });
            while !writer.is_finished() {
                let [a, b] = read(&best, ["a", "b"]).unwrap().contents;
                assert!(a == b && a.len() == 2000);
            }
        });
    }

    #[test]
    fn what_is_missing_or_damaged_is_not_waited_for() {
        let run = tempfile::tempdir().unwrap();
        let best = run.path().join("best");
        let error = read(&best, ["a"]).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("best/checksums.txt"), "{error}");
        checkpoint(&best, "0");
        fs::write(best.join("a"), "x").unwrap();
        let error = read(&best, ["a"]).unwrap_err().to_string();
        assert!(error.contains("is damaged"), "{error}");
        // A crash between two renames; whoever resumes puts it back.
        fs::rename(&best, folder_aside(&best)).unwrap();
        assert_eq!(read(&best, ["b"]).unwrap().contents[0].len(), 2000);
    }
}
