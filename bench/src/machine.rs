//! What this machine can do, for figures to be shares of.

use serde::Serialize;

use crate::peak;

/// Limits of this machine, measured on all processors at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Name of the processor, as the system tells it.
    pub cpu: String,
    /// Threads that every figure here is for.
    pub threads: usize,
    /// int8 operations in registers, in 1e9 per second; 0 where there is no loop for this processor.
    pub int8_gops: f64,
    /// Bytes read from memory, in 1e9 per second.
    pub read_gb_per_s: f64,
    /// Bytes read and written by copies in memory, in 1e9 per second.
    pub copy_gb_per_s: f64,
}

impl Machine {
    /// Measures it: a few seconds.
    #[must_use]
    pub fn measure() -> Self {
        Self {
            cpu: cpu_name(),
            threads: peak::num_threads(),
            int8_gops: peak::int8_gops_of_all_cores(),
            read_gb_per_s: peak::read_gb_per_s_of_all_cores(),
            copy_gb_per_s: peak::copy_gb_per_s_of_all_cores(),
        }
    }
}

/// The first model name that Linux lists.
fn cpu_name() -> String {
    let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = listed
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = name.and_then(|rest| rest.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}
