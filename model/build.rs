//! Compiles our few C++ functions and tells the linker where libtorch lies.
//!
//! It finds and downloads nothing: torch-sys found libtorch.

use std::process::ExitCode;

/// Other packages use this file as their whole build script; here its `main` is not called.
#[allow(dead_code, reason = "only `link` is wanted of a script that is also a whole program")]
mod rpath;

/// Each says what tch lacks.
const SOURCES: &[&str] = &[
    "cpp/autocast.cpp",
    "cpp/blob.cpp",
    "cpp/fused.cpp",
    "cpp/gradient_checkpoint.cpp",
    "cpp/operators.cpp",
    "cpp/script.cpp",
];

fn main() -> ExitCode {
    let Some(libraries) = rpath::link() else { return ExitCode::FAILURE };
    let include = libraries.with_file_name("include");

    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        // As libtorch was built: some of its structs have fewer fields with it.
        .define("NDEBUG", None)
        // As system headers: libtorch's own warnings are not ours.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .files(SOURCES)
        .compile("millstream_torch");
    ExitCode::SUCCESS
}
