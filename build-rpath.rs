//! The build script of every package whose programs or tests load libtorch.
//!
//! It writes libtorch's folder into what the package links, so that `cargo run`, the tests and
//! the bare program start with no LD_LIBRARY_PATH. It compiles nothing, finds nothing and
//! downloads nothing: torch-sys found libtorch, and `cargo xtask setup` brought it.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    match link() {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

/// Prints what the linker needs and returns libtorch's library folder; `None`, with an error for
/// cargo to show, when the package does not name `torch-sys`. A package with a build script of its
/// own calls this from there.
pub(crate) fn link() -> Option<PathBuf> {
    // Published by torch-sys' build script. Cargo hands it to direct dependents only, and runs
    // this script again whenever that one ran, so the variable needs no `rerun-if-env-changed`.
    let Some(folder) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
        println!("cargo::error=build-rpath.rs needs `torch-sys` among the package's dependencies");
        return None;
    };

    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    if folder.join("libtorch_cuda.so").exists() {
        // Nothing in Rust names a symbol of libtorch_cuda: it registers its kernels when it is
        // loaded, so the linker must be told to keep it.
        println!("cargo::rustc-link-arg=-L{}", folder.display());
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,--as-needed");
    }

    // The folder, not libtorch_cuda.so: cargo would run this script every time for a file that
    // is not there.
    println!("cargo::rerun-if-changed={}", folder.display());
    Some(folder)
}
