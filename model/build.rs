//! Compiles what we have in C++ and tells the linker where libtorch lies.
//!
//! It finds and downloads nothing: torch-sys found libtorch.

use std::process::ExitCode;

/// Other packages use this file as their whole build script; here its `main` is not called.
#[allow(dead_code, reason = "only `link` is wanted of a script that is also a whole program")]
mod rpath;

fn main() -> ExitCode {
    let Some(libraries) = rpath::link() else { return ExitCode::FAILURE };
    let include = libraries.with_file_name("include");

    println!("cargo::rerun-if-changed=cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        // As system headers: libtorch's own warnings are not ours.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .file("cpp/blob.cpp")
        .file("cpp/fused.cpp")
        .compile("millstream_blob");
    ExitCode::SUCCESS
}
