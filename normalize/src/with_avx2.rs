//! [`with_avx2`]: loops over values compiled twice, for any machine and for AVX2, which the machine is
//! asked for when it runs.
//!
//! Both do the same operations on every value in the same order, and nothing is fused, so both give
//! the same bits.

/// Defines a function whose body is compiled for AVX2 too. It must not call what is not inlined.
macro_rules! with_avx2 {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        fn $name($($argument: $type),*) {
            #[inline(always)]
            fn anywhere($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) {
                    anywhere($($argument),*);
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has just said that it has AVX2.
                    return unsafe { avx2($($argument),*) };
                }
            }
            anywhere($($argument),*);
        }
    };
}

pub(crate) use with_avx2;
