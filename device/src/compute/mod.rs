//! The virtual device's arithmetic, in plain slices and pointers: knows nothing of cores or tiles.
//!
//! Each function is written once and compiled for several instruction sets; [`Level`] says which the
//! processor has. All levels give the same bits: nothing here depends on the width of a vector, and
//! fused operations are fused everywhere.

pub mod convert;
pub mod elementwise;
pub mod fractal;
pub mod matmul;
pub mod reduce;
pub mod sort;

/// Instruction sets that the functions are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the target has.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 and its VNNI.
    Avx512,
}

impl Level {
    /// The best level of this processor.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return Self::Avx2;
            }
        }
        Self::Portable
    }

    /// All levels that this processor has.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let best = Self::detect();
        [Self::Portable, Self::Avx2, Self::Avx512]
            .into_iter()
            .filter(|level| *level <= best)
            .collect()
    }
}

/// Defines `pub unsafe fn name(level, ..)` that runs `body` compiled for the level. `body` must be
/// `#[inline(always)]`, so that it takes on the features of its caller.
macro_rules! multiversion {
    ($(#[$doc:meta])* $vis:vis unsafe fn $name:ident[$($generic:ident: $bound:path),*]($($arg:ident: $ty:ty),* $(,)?) = $body:path) => {
        $(#[$doc])*
        $vis unsafe fn $name<$($generic: $bound),*>(level: $crate::compute::Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")]
            unsafe fn avx512<$($generic: $bound),*>($($arg: $ty),*) {
                // SAFETY: as the caller promises.
                unsafe { $body($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2<$($generic: $bound),*>($($arg: $ty),*) {
                // SAFETY: as the caller promises.
                unsafe { $body($($arg),*) }
            }
            match level {
                // SAFETY: a level is only ever one that the processor has; the rest as the caller promises.
                #[cfg(target_arch = "x86_64")]
                $crate::compute::Level::Avx512 => unsafe { avx512::<$($generic),*>($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::compute::Level::Avx2 => unsafe { avx2::<$($generic),*>($($arg),*) },
                // SAFETY: as the caller promises.
                _ => unsafe { $body($($arg),*) },
            }
        }
    };
}
pub(crate) use multiversion;
