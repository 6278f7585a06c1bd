//! [`zeroed`]: room for many values, in pages of two megabytes where the system has them.
//!
//! Windows lie anywhere in hundreds of megabytes. With pages of four kilobytes every window waits
//! for the addresses of half a dozen of them, and the first write to each interrupts the program.

/// So many zeros.
pub(crate) fn zeroed(values: usize) -> Vec<f32> {
    // Nothing of it is in memory yet: the system gives a page when it is first written to.
    let mut room = vec![0.0; values];
    in_large_pages(&mut room);
    room
}

/// Asks the system to back these values with large pages.
#[cfg(target_os = "linux")]
fn in_large_pages(values: &mut [f32]) {
    /// Where a range may start: pages of every size do.
    const PAGE: usize = 1 << 21;
    let bytes = values.as_mut_ptr_range();
    let (start, end) = (bytes.start.addr().next_multiple_of(PAGE), bytes.end.addr());
    let length = end.saturating_sub(start) / PAGE * PAGE;
    if length == 0 {
        return;
    }
    let start = bytes.start.with_addr(start).cast();
    // SAFETY: whole pages inside of `values`, which are borrowed; the advice changes no value.
    unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
    // A system without large pages refuses, and small ones do as well.
}

#[cfg(not(target_os = "linux"))]
fn in_large_pages(_: &mut [f32]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_zeros_that_can_be_written() {
        for values in [0, 1, 1 << 18, (1 << 20) + 12_345] {
            let mut room = zeroed(values);
            assert_eq!(room.len(), values);
            assert!(room.iter().all(|value| value.to_bits() == 0));
            room.fill(1.0);
            assert_eq!(room.iter().map(|value| *value as usize).sum::<usize>(), values);
        }
    }
}
