//! The pinned wheels: where they come from, where they are kept, and that they are the right ones.
//!
//! Knows nothing of what is inside a wheel; `libtorch.rs` unpacks them. The cache belongs to the
//! user, not to the clone, so that a second clone downloads nothing.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::{prerequisites, process};

/// The libtorch that the workspace's tch is made for.
pub(crate) const TORCH_VERSION: &str = "2.13.0";

/// A file on the Python package index, named so exactly that only one can match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wheel {
    /// What pip is asked for.
    pub(crate) requirement: &'static str,
    /// Named, so that pip picks the same file whatever Python it runs in.
    pub(crate) platform: &'static str,
    pub(crate) file: &'static str,
    pub(crate) sha256: &'static str,
}

/// Everything a libtorch for the CPU is made of. The two NVIDIA libraries are here because
/// libtorch_cpu.so is linked to them; without a driver they load and stay idle.
pub(crate) const CPU_WHEELS: [Wheel; 3] = [
    Wheel {
        requirement: "torch==2.13.0",
        platform: "manylinux_2_28_x86_64",
        file: "torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl",
        sha256: "796633c4cdf0fe2cdced72d8f88f22e73dbcfce83132763162f6d4bff13b820b",
    },
    Wheel {
        requirement: "nvidia-cuda-cupti==13.0.85",
        platform: "manylinux_2_25_x86_64",
        file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl",
        sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
    },
    Wheel {
        requirement: "nvidia-cuda-runtime==13.0.96",
        platform: "manylinux2014_x86_64",
        file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
    },
];

/// The folder that all clones of one user share.
///
/// # Errors
/// [`Error::NoCacheFolder`] when neither XDG_CACHE_HOME nor HOME is set.
pub(crate) fn cache_folder() -> Result<PathBuf, Error> {
    cache_below(env::var_os("XDG_CACHE_HOME"), env::var_os("HOME")).ok_or(Error::NoCacheFolder)
}

/// Returns the paths of all [`CPU_WHEELS`], downloading the ones that `folder` lacks.
///
/// The caller holds the set-up lock.
///
/// # Errors
/// When a download fails, or brings a file that is not the pinned one.
pub(crate) fn fetch_all(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    remove_broken_downloads(folder)?;
    CPU_WHEELS.iter().map(|wheel| fetch(wheel, folder, download)).collect()
}

const DOWNLOAD_PREFIX: &str = "download-";

fn cache_below(xdg_cache_home: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    // The XDG specification says that a relative path is to be ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = xdg_cache_home.and_then(absolute);
    let base = base.or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))?;
    Some(base.join("millstream/wheels"))
}

/// A killed download leaves its folder behind; under the lock, every such folder is dead.
fn remove_broken_downloads(folder: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::file("list", folder))?;
    for entry in entries {
        let entry = entry.map_err(Error::file("list", folder))?;
        if entry.file_name().to_string_lossy().starts_with(DOWNLOAD_PREFIX) {
            fs::remove_dir_all(entry.path()).map_err(Error::file("remove", entry.path()))?;
        }
    }
    Ok(())
}

fn fetch(
    wheel: &Wheel,
    folder: &Path,
    download: impl FnOnce(&Wheel, &Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let kept = folder.join(wheel.file);
    if kept.exists() {
        if sha256_of(&kept)? == wheel.sha256 {
            return Ok(kept);
        }
        eprintln!("setup: the cached {} is damaged, downloading it again", wheel.file);
        fs::remove_file(&kept).map_err(Error::file("remove", &kept))?;
    }

    let arriving = tempfile::Builder::new()
        .prefix(DOWNLOAD_PREFIX)
        .tempdir_in(folder)
        .map_err(Error::file("create a folder in", folder))?;
    download(wheel, arriving.path())?;
    let arrived = arriving.path().join(wheel.file);
    if !arrived.is_file() {
        return Err(Error::NotDownloaded { file: wheel.file });
    }
    let found = sha256_of(&arrived)?;
    if found != wheel.sha256 {
        return Err(Error::WrongHash { file: wheel.file, found, expected: wheel.sha256 });
    }
    fs::rename(&arrived, &kept).map_err(Error::file("move a wheel to", &kept))?;
    Ok(kept)
}

fn download(wheel: &Wheel, folder: &Path) -> Result<(), Error> {
    let python = prerequisites::python_with_pip()?;
    eprintln!("setup: downloading {}", wheel.requirement);
    process::run_on_stderr(&mut pip_download(&python, wheel, folder))
}

fn pip_download(python: &Path, wheel: &Wheel, folder: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:"])
        .args(["--platform", wheel.platform])
        // Without these two, a PyPy or a free-threaded Python would look for its own kind.
        .args(["--implementation", "cp", "--abi", "cp312"])
        .args(["--python-version", "3.12"])
        // The wheel is kept here already; a second copy in pip's cache would be half a gigabyte.
        .args(["--no-cache-dir", "--disable-pip-version-check", "--dest"])
        .arg(folder)
        .arg(wheel.requirement);
    command
}

fn sha256_of(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(Error::file("open", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut buffer).map_err(Error::file("read", path))?;
        if length == 0 {
            break;
        }
        hash.update(&buffer[..length]);
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        write!(text, "{byte:02x}").expect("a String takes every write");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const HELLO: Wheel = Wheel {
        requirement: "hello==1",
        platform: "any",
        file: "hello.whl",
        sha256: "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
    };

    /// Fetches with a download that saves `served`; returns the outcome and how often it was called.
    fn fetch_with(cached: Option<&str>, served: &str) -> (Result<String, Error>, usize) {
        let temp = tempfile::tempdir().unwrap();
        if let Some(text) = cached {
            fs::write(temp.path().join(HELLO.file), text).unwrap();
        }
        let calls = Cell::new(0);
        let outcome = fetch(&HELLO, temp.path(), |wheel, folder| {
            calls.set(calls.get() + 1);
            fs::write(folder.join(wheel.file), served).unwrap();
            Ok(())
        });
        let entries = fs::read_dir(temp.path()).unwrap().count();
        assert_eq!(entries, usize::from(outcome.is_ok()), "only a good wheel stays in the cache");
        (outcome.map(|path| fs::read_to_string(path).unwrap()), calls.get())
    }

    #[test]
    fn a_good_wheel_in_the_cache_is_not_downloaded() {
        let (outcome, calls) = fetch_with(Some("hello"), "other");
        assert_eq!((outcome.unwrap().as_str(), calls), ("hello", 0));
    }

    #[test]
    fn a_missing_or_damaged_wheel_is_downloaded_once() {
        for cached in [None, Some("hel")] {
            let (outcome, calls) = fetch_with(cached, "hello");
            assert_eq!((outcome.unwrap().as_str(), calls), ("hello", 1));
        }
    }

    #[test]
    fn a_wrong_download_is_an_error_and_is_not_kept() {
        let (outcome, calls) = fetch_with(Some("hel"), "evil");
        assert!(matches!(outcome, Err(Error::WrongHash { file: "hello.whl", .. })));
        assert_eq!(calls, 1);
    }

    #[test]
    fn folders_of_killed_downloads_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("download-x1")).unwrap();
        fs::write(temp.path().join("kept.whl"), "").unwrap();
        remove_broken_downloads(temp.path()).unwrap();
        let left: Vec<_> = fs::read_dir(temp.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(left, [temp.path().join("kept.whl")]);
    }

    #[test]
    fn pip_is_asked_for_exactly_one_file() {
        let command = pip_download(Path::new("python3"), &CPU_WHEELS[0], Path::new("to"));
        assert_eq!(
            process::line(&command),
            "python3 -m pip download --no-deps --only-binary=:all: \
             --platform manylinux_2_28_x86_64 --implementation cp --abi cp312 \
             --python-version 3.12 --no-cache-dir --disable-pip-version-check \
             --dest to torch==2.13.0"
        );
    }

    #[test]
    fn the_cache_follows_the_xdg_rules() {
        let check = |xdg: Option<&str>, home: Option<&str>, expected: Option<&str>| {
            let found = cache_below(xdg.map(Into::into), home.map(Into::into));
            assert_eq!(found, expected.map(PathBuf::from));
        };
        check(Some("/c"), Some("/h"), Some("/c/millstream/wheels"));
        check(None, Some("/h"), Some("/h/.cache/millstream/wheels"));
        check(Some("relative"), Some("/h"), Some("/h/.cache/millstream/wheels"));
        check(None, None, None);
    }

    #[test]
    fn the_pins_agree_with_the_version() {
        let torch = CPU_WHEELS[0];
        assert_eq!(torch.requirement, format!("torch=={TORCH_VERSION}"));
        assert!(torch.file.starts_with(&format!("torch-{TORCH_VERSION}-cp312-")));
    }
}
