//! The `millstream` command, broken on purpose: at every file-changing call, by many of it at once,
//! and with a server that says no more.
//!
//! The suite tries a part of it, the same on every machine; `cargo xtask break` tries all.
#![allow(clippy::unwrap_used, reason = "clippy takes the helpers of a test for production code")]

mod at_once;
mod case;
mod cases;
mod checks_fire;
mod ending;
mod every_call;
mod frozen;
mod halting;
mod litter;
mod results;
mod subjects;
mod synced;
mod work_folder;

#[path = "../../../loader/tests/loader/support"]
#[expect(dead_code, reason = "the loader's own, which uses more of it")]
mod support {
    pub(super) mod authority;
    pub(super) mod server;
}
