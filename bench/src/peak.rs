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

/// Processors that this process may use.
#[must_use]
pub fn num_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` on every processor at once; the sum of what each reports. None begins before all are ready.
fn on_all_cores<T>(prepare: impl Fn() -> T + Sync, work: impl Fn(&mut T) -> f64 + Sync) -> f64 {
    let ready = std::sync::Barrier::new(num_threads());
    let measure = || {
        let mut state = prepare();
        ready.wait();
        work(&mut state)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..num_threads()).map(|_| scope.spawn(measure)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(0.0))
            .sum()
    })
}

/// int8 operations per second of all cores together, in 1e9; 0 where there is no loop for this processor.
#[must_use]
pub fn int8_gops_of_all_cores() -> f64 {
    Int8Peak::of_this_machine().map_or(0.0, |peak| on_all_cores(|| (), |()| peak.gops()))
}

/// Bytes of each operand of a loop over memory: far more than caches hold.
const MEMORY_BYTES: usize = 256 << 20;

/// Bytes read and written per second by plain copies in memory on all cores, in 1e9.
#[must_use]
pub fn copy_gb_per_s_of_all_cores() -> f64 {
    let buffers = || (vec![1u8; MEMORY_BYTES], vec![0u8; MEMORY_BYTES]);
    on_all_cores(buffers, |(source, target)| {
        let time = crate::best_time(3, 1, || {
            std::hint::black_box(&mut *target).copy_from_slice(std::hint::black_box(source));
        });
        2.0 * MEMORY_BYTES as f64 / time.as_secs_f64() / 1e9
    })
}

/// Bytes read from memory per second on all cores, in 1e9.
#[must_use]
pub fn read_gb_per_s_of_all_cores() -> f64 {
    on_all_cores(
        || vec![1u64; MEMORY_BYTES / 8],
        |source| {
            let time = crate::best_time(5, 1, || {
                std::hint::black_box(sum(std::hint::black_box(source)));
            });
            MEMORY_BYTES as f64 / time.as_secs_f64() / 1e9
        },
    )
}

/// Reads a line and more at each step, with sums that do not wait for each other.
fn sum(values: &[u64]) -> u64 {
    const WIDTH: usize = 32;
    let mut sums = [0u64; WIDTH];
    for chunk in values.as_chunks::<WIDTH>().0 {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*value);
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
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
