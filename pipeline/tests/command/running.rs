//! [`Running`]: a command that is under way, to be sent signals. It never outlives its test.

use crate::bench::Bench;
use std::{
    path::PathBuf,
    process::{Child, Command, ExitStatus, Output},
    thread,
    time::{Duration, Instant},
};

/// Far beyond what anything here takes, on a busy machine too.
const HANGS: Duration = Duration::from_secs(120);

pub(crate) struct Running {
    child: Option<Child>,
}

/// A setting by which a training run does not end by itself before the test does.
pub(crate) fn epochs() -> String {
    "train.epochs=5000".to_owned()
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Running { child: Some(command.spawn().unwrap()) }
    }

    /// A command that was started elsewhere.
    pub(crate) fn of(child: Child) -> Self {
        Running { child: Some(child) }
    }

    fn id(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Looks again and again until something can be seen. There is no event for a file of another
    /// process.
    pub(crate) fn wait_for(&self, mut seen: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !seen() {
            assert!(begun.elapsed() < HANGS, "nothing was seen");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// It has not ended by itself.
    pub(crate) fn still_runs(&self) {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // Behind the name, which is in parentheses; Z is one that has ended.
        assert!(!state.rsplit(')').next().unwrap().starts_with(" Z"), "it ended by itself");
    }

    /// Whether it has a thread of this name.
    pub(crate) fn has_thread(&self, name: &str) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten();
        let mut names = tasks
            .flatten()
            .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.any(|found| found.trim_end() == name)
    }

    pub(crate) fn signal(&self, number: libc::c_int) {
        let id = libc::pid_t::try_from(self.id()).unwrap();
        // SAFETY: a child of this process that has not been waited for, so the number is its own.
        let sent = unsafe { libc::kill(id, number) };
        assert_eq!(sent, 0, "it is a child of ours");
    }

    /// Waits for it.
    pub(crate) fn end(self) -> ExitStatus {
        self.output().status
    }

    /// Waits for it, with what it wrote to pipes.
    pub(crate) fn output(mut self) -> Output {
        let child = self.child.take().unwrap();
        let id = libc::pid_t::try_from(child.id()).unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        let waiting = thread::spawn(move || done.send(child.wait_with_output().unwrap()));
        let output = ended.recv_timeout(HANGS);
        if output.is_err() {
            // SAFETY: as above; the thread still waits for it.
            unsafe { libc::kill(id, libc::SIGKILL) };
        }
        drop(waiting.join().unwrap());
        output.expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Bench {
    /// The directories of all runs.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("runs")).into_iter().flatten().flatten();
        let mut runs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        runs.sort();
        runs
    }

    /// Bytes of all journals.
    pub(crate) fn journal(&self) -> u64 {
        let of = |run: PathBuf| std::fs::metadata(run.join("metrics.jsonl"));
        self.runs().into_iter().filter_map(|run| of(run).ok()).map(|meta| meta.len()).sum()
    }
}
