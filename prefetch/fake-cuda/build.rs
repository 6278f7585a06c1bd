//! Gives the driver the name that cudarc looks for, inside the file only.
//!
//! `dlopen("libcuda.so")` finds an object that is already loaded by its SONAME, so a test that has
//! loaded this library by path gets it instead of the machine's driver. The file itself keeps a
//! name of its own: a `libcuda.so` under target/ would shadow a real driver.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
}
