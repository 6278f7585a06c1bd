//! Arbitrary bytes into the COPY decoder: no panic, no read out of bounds, no endless loop.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_loader::fuzz_copy(data));
