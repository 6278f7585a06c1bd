//! The floor: files read from their first byte to their last into one small buffer, and added up.

use crate::{
    harness::{
        Failure,
        sample::{Clock, Sample, Whose},
    },
    workload::sum_bytes,
};
use std::{fs::File, hint::black_box, io::Read, path::PathBuf};

/// As much as a core's own cache keeps until it is added up.
const BUFFER: usize = 256 << 10;

pub(crate) fn read(files: &[PathBuf]) -> Result<Sample<()>, Failure> {
    let mut buffer = vec![0; BUFFER];
    let clock = Clock::start(Whose::Own)?;
    let mut total = 0_u32;
    for file in files {
        let mut file = File::open(file)?;
        loop {
            let length = file.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            total = total.wrapping_add(sum_bytes(&buffer[..length]));
        }
    }
    black_box(total);
    clock.stop()
}
