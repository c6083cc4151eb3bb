//! What benchmarks share: the machine's peaks, and timing.
//!
//! A figure without the peak of the same run says little on a machine that others use too; so every
//! benchmark measures the peak beside it and prints the ratio.
#![deny(missing_docs)]

pub mod machine;
pub mod peak;
pub mod rig;
pub mod tile;
pub mod traffic;

use std::time::{Duration, Instant};

/// Shortest of `rounds` times of `work`, each of `repeats` calls; the time of one call.
pub fn best_time(rounds: u32, repeats: u32, mut work: impl FnMut()) -> Duration {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..repeats).for_each(|_| work());
        start.elapsed() / repeats
    };
    work();
    (0..rounds)
        .map(|_| time(&mut work))
        .min()
        .unwrap_or_default()
}

/// Operations per second, in 1e9.
#[must_use]
pub fn gops(operations: f64, time: Duration) -> f64 {
    operations / time.as_secs_f64().max(f64::MIN_POSITIVE) / 1e9
}
