//! Compiles the trainer's one C++ function and tells the linker where libtorch lies.
//!
//! It finds and downloads nothing: torch-sys found libtorch. The linker's part repeats
//! `build-rpath.rs` in the workspace's root, which is the whole script of packages without C++.

use std::{env, path::PathBuf};

fn main() {
    let libraries = env::var_os("DEP_TCH_LIBTORCH_LIB")
        .map(PathBuf::from)
        .expect("torch-sys is among this package's dependencies, so cargo passes its folder on");
    let include = libraries.with_file_name("include");

    println!("cargo::rerun-if-changed=cpp/blob.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .define("_GLIBCXX_USE_CXX11_ABI", "1")
        // As system headers: libtorch's own warnings are not ours.
        .flag(format!("-isystem{}", include.display()))
        .flag(format!("-isystem{}", include.join("torch/csrc/api/include").display()))
        .file("cpp/blob.cpp")
        .compile("millstream_blob");

    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", libraries.display());
    if libraries.join("libtorch_cuda.so").exists() {
        // It registers its kernels when it is loaded; no symbol of it is named, so the linker
        // must be told to keep it.
        println!("cargo::rustc-link-arg=-L{}", libraries.display());
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,--as-needed");
    }
}
