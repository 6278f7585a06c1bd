//! Memory that is needed soon, asked for while something else is done. Where the machine cannot do
//! that, nothing happens.

/// Values of a memory page: the hardware looks ahead by itself, but only to the end of a page.
const PAGE: usize = 4096 / size_of::<f32>();

/// Asks for the beginnings of all pages under these values, without waiting for them.
#[inline]
pub(crate) fn fetch(values: &[f32]) {
    for page in values.chunks(PAGE) {
        touch(&page[0]);
    }
}

/// Asks for the memory around this value, without waiting for it.
#[inline]
pub(crate) fn touch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: asking for memory changes nothing and never faults; this memory is there besides.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
