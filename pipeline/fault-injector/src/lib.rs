//! A library to preload into a process, which makes the N-th file-changing call of it go wrong.
//!
//! For tests only. The library itself is `c/injector.c`: it sees every call that changes a file below
//! a folder, whoever makes it, and can end the process there, let the call fail, cut a write in half
//! or raise a signal. This crate is how a test preloads it, and reads which calls there were:
//!
//! ```
//! use fault_injector::{Fault, Injector};
//! use std::process::Command;
//!
//! let folder = tempfile::tempdir()?;
//! let injector = Injector::new(folder.path(), &folder.path().with_extension("calls"))?;
//! let mut touch = Command::new("touch");
//! touch.arg(folder.path().join("a"));
//! injector.count(&mut touch)?;
//! assert!(touch.status()?.success());
//! let calls = injector.calls()?;
//! assert_eq!(calls[0].name, "open");
//!
//! injector.inject(&mut touch, 1, Fault::Kill)?;
//! assert!(!touch.output()?.status.success());
//! # std::fs::remove_file(folder.path().with_extension("calls"))?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What a power failure would lose is not simulated: what was written stays written. Whether a file
//! was synced before it got its name can be read from the calls.

mod call;
mod fault;

pub use crate::{call::Call, fault::Fault};

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The preloaded library.
const LIBRARY: &str = concat!(env!("OUT_DIR"), "/libfault_injector.so");

const PREFIX: &str = "FAULT_INJECTOR_PREFIX";
const REPORT: &str = "FAULT_INJECTOR_REPORT";
const AT: &str = "FAULT_INJECTOR_AT";
const KIND: &str = "FAULT_INJECTOR_KIND";

/// Watches what processes do below one folder.
#[derive(Debug, Clone)]
pub struct Injector {
    folder: PathBuf,
    report: PathBuf,
}

impl Injector {
    /// Watches `folder`; the calls of a process are noted in the file `report`, which must not be
    /// in it.
    ///
    /// # Errors
    /// The folder is not there.
    pub fn new(folder: &Path, report: &Path) -> io::Result<Self> {
        Ok(Injector { folder: fs::canonicalize(folder)?, report: std::path::absolute(report)? })
    }

    /// Lets a command note its calls, and nothing else. It must start no program of its own.
    ///
    /// # Errors
    /// The notes of the command before it cannot be removed.
    pub fn count(&self, command: &mut Command) -> io::Result<()> {
        match fs::remove_file(&self.report) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        command.env("LD_PRELOAD", LIBRARY).env(PREFIX, &self.folder).env(REPORT, &self.report);
        command.env_remove(AT).env_remove(KIND);
        Ok(())
    }

    /// Lets the call with this number go wrong, counted from 1, and notes the calls.
    ///
    /// # Errors
    /// As for [`Injector::count`].
    pub fn inject(&self, command: &mut Command, at: usize, fault: Fault) -> io::Result<()> {
        self.count(command)?;
        command.env(AT, at.to_string()).env(KIND, fault.name());
        Ok(())
    }

    /// The calls of the command that ran last. Threads may have noted them out of order.
    ///
    /// # Errors
    /// There are no notes: the library was not loaded.
    pub fn calls(&self) -> io::Result<Vec<Call>> {
        let mut calls: Vec<Call> =
            fs::read_to_string(&self.report)?.lines().filter_map(Call::parse).collect();
        calls.sort_by_key(|call| call.number);
        Ok(calls)
    }
}
