//! The injector on programs that everybody has: `dd`, `mv` and `sh`. Each fault does to them what it
//! says, and nothing else does.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

use fault_injector::{Call, Fault, Injector};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, Output},
};
use tempfile::TempDir;

/// A folder that is watched, beside the report.
struct Watched {
    outer: TempDir,
    injector: Injector,
}

impl Watched {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("in")).unwrap();
        let injector =
            Injector::new(&outer.path().join("in"), &outer.path().join("calls")).unwrap();
        Watched { outer, injector }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.outer.path().join("in").join(name)
    }

    /// Writes 10 bytes in two writes and syncs them.
    fn write(&self, fault: Option<(usize, Fault)>) -> Output {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=5", "count=2", "conv=fsync", "status=none"]);
        dd.arg(format!("of={}", self.path("a").display())).env("LC_ALL", "C");
        self.run(&mut dd, fault)
    }

    fn run(&self, command: &mut Command, fault: Option<(usize, Fault)>) -> Output {
        match fault {
            None => self.injector.count(command).unwrap(),
            Some((at, fault)) => self.injector.inject(command, at, fault).unwrap(),
        }
        command.output().unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.injector.calls().unwrap().into_iter().map(|call: Call| call.name).collect()
    }

    /// How long the file is; `None` when it is not there.
    fn length(&self) -> Option<u64> {
        fs::metadata(self.path("a")).ok().map(|meta| meta.len())
    }
}

#[test]
fn every_call_below_the_folder_is_noted_and_none_outside() {
    let watched = Watched::new();
    assert!(watched.write(None).status.success());
    assert_eq!(watched.names(), ["open", "write", "write", "fsync"]);
    let calls = watched.injector.calls().unwrap();
    assert_eq!((calls[1].bytes, calls[1].number), (5, 2));
    assert!(calls.iter().all(|call| call.path.ends_with("in/a")), "{calls:?}");

    let mut mv = Command::new("mv");
    mv.args(["a", "b"]).current_dir(watched.outer.path().join("in"));
    assert!(watched.run(&mut mv, None).status.success());
    let calls = watched.injector.calls().unwrap();
    assert!(calls.iter().all(|call| call.name == "rename" && call.path.ends_with("in/b")));
    assert!(calls[0].from.as_ref().unwrap().ends_with("in/a"), "{calls:?}");

    let mut outside = Command::new("sh");
    outside.args(["-c", "echo x > c"]).current_dir(watched.outer.path());
    assert!(watched.run(&mut outside, None).status.success());
    assert_eq!(watched.names(), [""; 0]);
}

#[test]
fn a_kill_leaves_what_was_done_before() {
    for (at, left) in [(1, None), (2, Some(0)), (3, Some(5)), (4, Some(10))] {
        let watched = Watched::new();
        let output = watched.write(Some((at, Fault::Kill)));
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert_eq!((watched.names().len(), watched.length()), (at, left));
    }
    let watched = Watched::new();
    assert!(watched.write(Some((5, Fault::Kill))).status.success(), "there is no fifth call");
}

#[test]
fn a_call_that_fails_says_why() {
    for fault in [Fault::NoSpace, Fault::Io, Fault::Full] {
        for at in 1..=4 {
            let watched = Watched::new();
            let output = watched.write(Some((at, fault)));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            // To sync takes no room.
            if (fault, at) == (Fault::Full, 4) {
                assert!(output.status.success(), "{said}");
            } else {
                assert!(said.contains(fault.message().unwrap()), "{fault:?} at {at}: {said}");
            }
        }
    }
}

#[test]
fn a_write_is_cut_in_half() {
    let watched = Watched::new();
    let output = watched.write(Some((3, Fault::CutAndKill)));
    assert_eq!((output.status.signal(), watched.length()), (Some(9), Some(7)));

    let watched = Watched::new();
    let output = watched.write(Some((3, Fault::CutAndFull)));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("No space left"), "{said}");
    assert_eq!(watched.length(), Some(7), "half is there, and the rest was refused");
    assert_eq!(watched.names().iter().filter(|name| *name == "write").count(), 3);
}

#[test]
fn a_signal_arrives_and_the_call_works() {
    for (fault, name) in [(Fault::Interrupt, "INT"), (Fault::Terminate, "TERM")] {
        let watched = Watched::new();
        let mut shell = Command::new("sh");
        let script = format!("trap 'echo caught; exit 5' {name}; echo x > a");
        shell.args(["-c", &script]).current_dir(watched.outer.path().join("in"));
        let output = watched.run(&mut shell, Some((2, fault)));
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert_eq!((output.stdout, watched.length()), (b"caught\n".to_vec(), Some(2)));
    }
}
