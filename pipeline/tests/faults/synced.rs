//! What a power failure could take, which no kill shows: whether every file was synced before it got
//! its name, and every folder after a name in it changed. Read from the calls of an undisturbed run.

use crate::{case::Stage, subjects};
use fault_injector::Call;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Files whose content is nothing that could be lost.
const LOCKS: [&str; 3] = ["lock", ".lock", "run.lock"];

/// What is not on the disk yet.
#[derive(Default)]
struct Unsynced {
    /// Files with bytes, and the number of the call that wrote them.
    files: BTreeMap<PathBuf, usize>,
    /// Folders with names.
    folders: BTreeMap<PathBuf, usize>,
    /// What was made before: to open or make it again changes no folder.
    made: BTreeSet<PathBuf>,
}

impl Unsynced {
    /// A name in this file's folder has changed.
    fn name_changed(&mut self, call: &Call) {
        if let Some(folder) = call.path.parent() {
            self.folders.insert(folder.to_owned(), call.number);
        }
    }

    /// What of a file or folder is not on the disk.
    fn below(&self, path: &Path) -> Option<&PathBuf> {
        self.files.keys().chain(self.folders.keys()).find(|it| it.starts_with(path))
    }

    fn forget(&mut self, path: &Path) {
        self.files.retain(|it, _| !it.starts_with(path));
        self.folders.retain(|it, _| !it.starts_with(path));
        self.made.retain(|it| !it.starts_with(path));
    }
}

/// What a power failure at the end, or between any two calls, would take of what has its name; with
/// what was there before.
fn wrong(calls: &[Call], before: Vec<PathBuf>) -> Vec<String> {
    let mut unsynced = Unsynced { made: before.into_iter().collect(), ..Unsynced::default() };
    let mut wrong = Vec::new();
    for call in calls {
        let is_lock = call.path.file_name().is_some_and(|name| LOCKS.iter().any(|it| name == *it));
        match &*call.name {
            _ if is_lock => {}
            "open" | "mkdir" => {
                if unsynced.made.insert(call.path.clone()) {
                    unsynced.name_changed(call);
                }
            }
            "link" => unsynced.name_changed(call),
            "unlink" | "rmdir" => unsynced.forget(&call.path),
            "fsync" | "fdatasync" => {
                unsynced.files.remove(&call.path);
                unsynced.folders.remove(&call.path);
            }
            "rename" => {
                let from = call.from.as_deref().unwrap();
                if let Some(lost) = unsynced.below(from) {
                    let (name, lost) = (call.path.display(), lost.display());
                    wrong.push(format!(
                        "call {}: {name} has its name before {lost} is synced",
                        call.number
                    ));
                }
                unsynced.forget(from);
                unsynced.name_changed(call);
                unsynced.made.insert(call.path.clone());
            }
            _ => {
                unsynced.files.insert(call.path.clone(), call.number);
            }
        }
    }
    let left = unsynced.files.iter().map(|(path, call)| (path, call, "its bytes"));
    let left = left.chain(unsynced.folders.iter().map(|(path, call)| (path, call, "names in it")));
    wrong.extend(left.map(|(path, call, what)| {
        format!("{}: {what} are not synced after call {call}", path.display())
    }));
    wrong
}

#[test]
fn whatever_has_its_name_is_on_the_disk() {
    let subjects = [&subjects::TRAIN, &subjects::RESUME, &subjects::IMPORT, &subjects::PREDICT];
    let check = |subject: &&'static subjects::Subject| {
        let stage = Stage::new(subject).unwrap();
        let before = stage.work.everything();
        wrong(&stage.calls().unwrap(), before)
            .into_iter()
            .map(|line| format!("{}: {line}", subject.name))
            .collect::<Vec<_>>()
    };
    let wrong: Vec<String> = subjects.iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_was_not_synced_is_found() {
    let check = |text: &str, expected: &[&str]| {
        let call = |(number, words): (usize, &str)| {
            let words: Vec<&str> = words.split(' ').collect();
            let (path, from) = match words[..] {
                [_, path] => (path, None),
                [_, from, path] => (path, Some(from.into())),
                _ => unreachable!("a call has one path or two"),
            };
            Call { number, name: words[0].to_owned(), bytes: 1, path: path.into(), from }
        };
        let calls: Vec<Call> = text.split(", ").enumerate().map(call).collect();
        let found = wrong(&calls, vec!["d".into()]);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{found:?} does not say {expected:?}");
        }
    };
    check("open d/.a, write d/.a, fsync d/.a, rename d/.a d/a, fsync d", &[]);
    check("open d/.a, write d/.a, rename d/.a d/a, fsync d", &["d/a has its name before d/.a"]);
    check("open d/.a, write d/.a, fsync d/.a, rename d/.a d/a", &["d: names in it"]);
    check("open d/a, write d/a, fsync d, fsync d/a, write d/a", &["d/a: its bytes"]);
    check("open d/.a, write d/.a, unlink d/.a, fsync d, open d/lock, write d/lock", &[]);
    check("open d/.p/x, write d/.p/x, fsync d/.p/x, rename d/.p d/p, fsync d", &["before d/.p is"]);
}
