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

/// Runs `work` on every processor at once; the sum of what each reports.
fn on_all_cores(work: impl Fn() -> f64 + Sync) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(&work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum()
    })
}

/// int8 operations per second of all cores together, in 1e9; 0 where there is no loop for this processor.
#[must_use]
pub fn int8_gops_of_all_cores() -> f64 {
    Int8Peak::of_this_machine().map_or(0.0, |peak| on_all_cores(|| peak.gops()))
}

/// Bytes read and written per second by plain copies on all cores, in 1e9; far more than caches hold.
#[must_use]
pub fn copy_gb_per_s_of_all_cores() -> f64 {
    const BYTES: usize = 128 << 20;
    on_all_cores(|| {
        let (source, mut target) = (vec![1u8; BYTES], vec![0u8; BYTES]);
        let time = crate::best_time(3, 1, || {
            std::hint::black_box(&mut target).copy_from_slice(std::hint::black_box(&source));
        });
        2.0 * BYTES as f64 / time.as_secs_f64() / 1e9
    })
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
