//! `.libtorch`: a libtorch for the CPU, cut out of the pinned wheels.
//!
//! It is made beside its final place and renamed, so that a `.libtorch` is always whole. It does
//! not build anything and does not hold CUDA; `cuda_venv.rs` does that.

use std::fs::{self, File};
use std::io::{self, BufReader, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::error::Error;
use crate::wheels::{self, CPU_WHEELS, TORCH_VERSION};
use crate::workspace::Workspace;

/// Tells what a `.libtorch` was made from; inside it.
pub(crate) const STAMP: &str = "millstream-stamp";

const HEADERS: &str = "torch/include/";

/// libtorch_cpu.so and what it is linked to, besides the system's libraries.
const LIBRARIES: [&str; 5] = [
    "torch/lib/libc10.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libgomp.so.1",
    "nvidia/cu13/lib/libcupti.so.13",
    "nvidia/cu13/lib/libcudart.so.13",
];

/// The wheel's own libtorch.so pulls in CUDA. torch-sys asks for `-ltorch`, and the linker reads
/// this text in its place.
const LIBTORCH_SO: &str = "INPUT(-ltorch_cpu -lc10)\n";

/// What the stamp of an up-to-date `.libtorch` says.
pub(crate) fn expected_stamp() -> String {
    CPU_WHEELS.iter().map(|wheel| format!("{}  {}\n", wheel.sha256, wheel.file)).collect()
}

/// Whether `libtorch` was made, completely, from what `stamp` says.
pub(crate) fn is_current(libtorch: &Path, stamp: &str) -> bool {
    fs::read_to_string(libtorch.join(STAMP)).is_ok_and(|found| found == stamp)
        && libtorch.join("lib").is_dir()
        && libtorch.join("include").is_dir()
}

/// Makes `.libtorch` from the wheels in `cache`. The caller holds the set-up lock.
///
/// # Errors
/// When a wheel cannot be fetched or read, or the disk is full; `.libtorch` is then as before.
pub(crate) fn make(workspace: &Workspace, cache: &Path) -> Result<(), Error> {
    let wheels = wheels::fetch_all(cache)?;
    let libtorch = workspace.libtorch();
    let partial = beside(&libtorch, &format!("{PARTIAL}{}", std::process::id()));
    let outcome = unpack(&wheels, &partial).and_then(|()| put_in_place(&partial, &libtorch));
    if outcome.is_err() && partial.exists() {
        fs::remove_dir_all(&partial).map_err(Error::file("remove", &partial))?;
    }
    outcome
}

/// Moves a finished folder or link to its final place, replacing what is there.
///
/// # Errors
/// When a rename or a removal fails.
pub(crate) fn put_in_place(made: &Path, target: &Path) -> Result<(), Error> {
    let old = beside(target, &format!("{PARTIAL}{}-old", std::process::id()));
    let replaces_folder = target.symlink_metadata().is_ok_and(|found| found.is_dir());
    if replaces_folder {
        fs::rename(target, &old).map_err(Error::file("move away", target))?;
    } else if target.is_symlink() && !made.is_symlink() {
        fs::remove_file(target).map_err(Error::file("remove", target))?;
    }
    fs::rename(made, target).map_err(Error::file("create", target))?;
    if replaces_folder {
        fs::remove_dir_all(&old).map_err(Error::file("remove", &old))?;
    }
    Ok(())
}

/// Removes what killed set-ups left beside `.libtorch`.
///
/// # Errors
/// When such a folder cannot be removed.
pub(crate) fn remove_stale_partials(workspace: &Workspace) -> Result<(), Error> {
    let root = workspace.root();
    for entry in fs::read_dir(root).map_err(Error::file("list", root))? {
        let entry = entry.map_err(Error::file("list", root))?;
        let name = entry.file_name();
        let Some(process) = process_of_partial(&name.to_string_lossy()) else { continue };
        if !Path::new("/proc").join(process.to_string()).exists() {
            fs::remove_dir_all(entry.path()).map_err(Error::file("remove", entry.path()))?;
        }
    }
    Ok(())
}

const PARTIAL: &str = ".libtorch.partial-";

/// The process id in the name of an unfinished folder.
fn process_of_partial(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PARTIAL)?;
    rest.strip_suffix("-old").unwrap_or(rest).parse().ok()
}

fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}

/// Where an entry of a wheel goes; `None` for what is left out.
fn destination(entry: &str) -> Option<PathBuf> {
    if let Some(header) = entry.strip_prefix(HEADERS) {
        return (!entry.ends_with('/')).then(|| Path::new("include").join(header));
    }
    let library = LIBRARIES.into_iter().find(|library| *library == entry)?;
    Some(Path::new("lib").join(Path::new(library).file_name()?))
}

fn unpack(wheels: &[PathBuf], to: &Path) -> Result<(), Error> {
    let mut archives = Vec::new();
    let mut total = 0;
    for path in wheels {
        let bad = |source| Error::ReadWheel { path: path.clone(), source };
        let file = File::open(path).map_err(Error::file("open", path))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(bad)?;
        let mut kept = Vec::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(bad)?;
            if let Some(place) = destination(&entry.name().map_err(bad)?) {
                total += entry.size();
                kept.push((index, place));
            }
        }
        archives.push((path, archive, kept));
    }

    let mut progress = Progress::start(total);
    for (path, mut archive, kept) in archives {
        for (index, place) in kept {
            let bad = |source| Error::ReadWheel { path: path.clone(), source };
            let mut entry = archive.by_index(index).map_err(bad)?;
            write_file(&mut entry, &to.join(place), &mut progress)?;
        }
    }
    progress.finish();

    for library in LIBRARIES {
        let place = destination(library).map(|place| to.join(place));
        if !place.is_some_and(|place| place.is_file()) {
            return Err(Error::MissingFromWheels { entry: library });
        }
    }
    let written = [
        ("lib/libtorch.so", LIBTORCH_SO),
        ("build-version", TORCH_VERSION),
        (STAMP, &expected_stamp()),
    ];
    for (name, text) in written {
        fs::write(to.join(name), text).map_err(Error::file("write", to.join(name)))?;
    }
    Ok(())
}

fn write_file(from: &mut impl Read, to: &Path, progress: &mut Progress) -> Result<(), Error> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    }
    let mut file = File::create(to).map_err(Error::file("create", to))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = from.read(&mut buffer).map_err(Error::file("unpack", to))?;
        if length == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..length]).map_err(Error::file("write", to))?;
        progress.advance(length as u64);
    }
}

/// A percentage that redraws itself on a terminal, and a single line elsewhere.
struct Progress {
    total: u64,
    done: u64,
    shown: u64,
    redraws: bool,
}

impl Progress {
    fn start(total: u64) -> Self {
        let redraws = io::stderr().is_terminal();
        if !redraws {
            eprintln!("setup: unpacking libtorch ({} MB)", total / 1_000_000);
        }
        Self { total, done: 0, shown: u64::MAX, redraws }
    }

    fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        let percent = self.done * 100 / self.total.max(1);
        if self.redraws && percent != self.shown {
            self.shown = percent;
            eprint!("\rsetup: unpacking libtorch {percent:3} %");
        }
    }

    fn finish(self) {
        if self.redraws {
            eprintln!();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn wheel(path: &Path, entries: &[(&str, &str)]) -> PathBuf {
        let mut writer = ZipWriter::new(File::create(path).unwrap());
        for (name, text) in entries {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        path.to_path_buf()
    }

    #[test]
    fn only_headers_and_the_named_libraries_are_kept() {
        let check = |entry: &str, expected: Option<&str>| {
            assert_eq!(destination(entry), expected.map(PathBuf::from), "{entry}");
        };
        check("torch/include/ATen/ATen.h", Some("include/ATen/ATen.h"));
        check("torch/include/ATen/", None);
        check("torch/lib/libtorch_cpu.so", Some("lib/libtorch_cpu.so"));
        check("nvidia/cu13/lib/libcudart.so.13", Some("lib/libcudart.so.13"));
        check("torch/lib/libtorch.so", None);
        check("torch/lib/libtorch_cuda.so", None);
        check("nvidia/cu13/include/cuda.h", None);
    }

    #[test]
    fn unpacking_ends_with_a_stamp_and_a_linker_script() {
        let temp = tempfile::tempdir().unwrap();
        let mut entries: Vec<_> = LIBRARIES.iter().map(|library| (*library, "elf")).collect();
        entries.push(("torch/include/torch/script.h", "#pragma once"));
        entries.push(("torch/lib/libtorch_cuda.so", "elf"));
        let wheels = [wheel(&temp.path().join("all.whl"), &entries)];
        let made = temp.path().join("made");
        unpack(&wheels, &made).unwrap();

        assert!(is_current(&made, &expected_stamp()));
        assert!(!is_current(&made, "another pin\n"));
        let read = |name: &str| fs::read_to_string(made.join(name)).unwrap();
        assert_eq!(read("include/torch/script.h"), "#pragma once");
        assert_eq!(read("lib/libtorch.so"), "INPUT(-ltorch_cpu -lc10)\n");
        assert_eq!(read("build-version"), "2.13.0");
        assert!(!made.join("lib/libtorch_cuda.so").exists());
    }

    #[test]
    fn a_wheel_without_a_library_is_refused_and_leaves_no_stamp() {
        let temp = tempfile::tempdir().unwrap();
        let wheels = [wheel(&temp.path().join("a.whl"), &[(LIBRARIES[0], "elf")])];
        let made = temp.path().join("made");
        let error = unpack(&wheels, &made).unwrap_err();
        assert!(matches!(error, Error::MissingFromWheels { entry } if entry == LIBRARIES[1]));
        assert!(!made.join(STAMP).exists());
    }

    #[test]
    fn a_new_libtorch_replaces_a_folder_or_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join(".libtorch");
        let made = temp.path().join("made");
        let make = |text: &str| {
            fs::create_dir(&made).unwrap();
            fs::write(made.join(STAMP), text).unwrap();
        };
        make("first");
        put_in_place(&made, &target).unwrap();
        make("second");
        put_in_place(&made, &target).unwrap();
        assert_eq!(fs::read_to_string(target.join(STAMP)).unwrap(), "second");

        std::os::unix::fs::symlink("elsewhere", &made).unwrap();
        put_in_place(&made, &target).unwrap();
        assert_eq!(fs::read_link(&target).unwrap(), Path::new("elsewhere"));
        make("third");
        put_in_place(&made, &target).unwrap();
        assert_eq!(fs::read_to_string(target.join(STAMP)).unwrap(), "third");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn partials_of_the_dead_are_removed_and_those_of_the_living_kept() {
        let temp = tempfile::tempdir().unwrap();
        let living = format!("{PARTIAL}{}", std::process::id());
        // Linux hands out no process id above 2^22.
        for name in [".libtorch.partial-4999999", ".libtorch.partial-4999999-old", &living] {
            fs::create_dir(temp.path().join(name)).unwrap();
        }
        remove_stale_partials(&Workspace::at(temp.path())).unwrap();
        let left: Vec<_> =
            fs::read_dir(temp.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [living.as_str()]);
    }
}
