//! Peaks of this machine, measured by loops that do nothing else.

use std::time::Duration;

/// A loop that multiplies and adds int8 in registers only, and how many operations it does.
#[derive(Clone, Copy, Debug)]
pub struct Int8Peak {
    run: fn(),
    operations: f64,
}

impl Int8Peak {
    /// The loop for the matrix code that this processor runs; `None` where that code is portable.
    #[must_use]
    pub fn of_this_machine() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if megamoe_device::compute::Level::detect() == megamoe_device::compute::Level::Avx512 {
            return Some(Self {
                run: vnni::run,
                operations: vnni::OPERATIONS,
            });
        }
        None
    }

    /// Operations per second of one core, in 1e9.
    #[must_use]
    pub fn gops(&self) -> f64 {
        let time: Duration = crate::best_time(20, 1, self.run);
        crate::gops(self.operations, time)
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use std::arch::x86_64::*;

    const STEPS: usize = 50_000;
    const ACCUMULATORS: usize = 24;
    /// 64 multiplications and additions for each instruction.
    pub(super) const OPERATIONS: f64 = (STEPS * ACCUMULATORS * 128) as f64;

    pub(super) fn run() {
        // SAFETY: called only where the processor has AVX-512 VNNI.
        unsafe { registers_only() }
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn registers_only() {
        let (a, b) = (_mm512_set1_epi8(1), _mm512_set1_epi8(3));
        let mut acc = [_mm512_setzero_si512(); ACCUMULATORS];
        for _ in 0..STEPS {
            for acc in &mut acc {
                *acc = _mm512_dpbusd_epi32(*acc, a, b);
            }
        }
        std::hint::black_box(acc);
    }
}
