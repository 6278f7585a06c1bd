//! Compiles the preloaded library, with the C compiler that the rest of the workspace needs too.
//!
//! It is C, and no `cdylib` of this crate: what a signal handler may do is C's, and a library that
//! is preloaded into somebody else's process should bring no runtime of its own.

use std::{env, path::PathBuf, process::ExitCode};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=c/injector.c");
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let compiler = cc::Build::new().pic(true).warnings(true).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-std=gnu11", "-Werror", "-shared", "-o"]);
    command.arg(folder.join("libfault_injector.so")).arg("c/injector.c");
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        ended => {
            println!("cargo::error=cannot compile c/injector.c: {ended:?}");
            ExitCode::FAILURE
        }
    }
}
