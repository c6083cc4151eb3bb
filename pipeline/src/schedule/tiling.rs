//! A schedule as device code reads it: every choice made, for one SoC and number of experts.

use bytemuck::{Pod, Zeroable};

/// Cores that share a stage: `num` from `first` on; behind the last core comes core 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CoreGroup {
    /// First core.
    pub first: u32,
    /// Number of cores.
    pub num: u32,
}

impl CoreGroup {
    /// Whether two groups of the same `total` cores have one in common.
    pub(crate) fn overlaps(self, other: Self, total: u32) -> bool {
        let place = (other.first + total - self.first) % total;
        place < self.num || place + other.num > total
    }
}

/// Who does what when. Experts are local ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct ScheduleTiling {
    /// Matrix cores of the launch.
    pub num_aic: u32,
    /// Vector cores of the launch.
    pub num_aiv: u32,
    /// Local experts.
    pub experts_per_rank: u32,
    /// Experts of a wave.
    pub experts_per_wave: u32,
    /// Matrix cores of GMM1.
    pub gmm1: CoreGroup,
    /// Matrix cores of GMM2.
    pub gmm2: CoreGroup,
    /// Vector cores of Dispatch.
    pub dispatch: CoreGroup,
    /// Vector cores of the activation.
    pub swiglu: CoreGroup,
    /// Vector cores of Combine.
    pub combine: CoreGroup,
    /// First experts whose GMM1 all matrix cores share.
    pub all_cores_experts: u32,
    /// First expert of GMM2 that cores of GMM1 may join; the number of experts for none.
    pub join_from: u32,
    /// Combine waits for GMM2 of all experts up to this one before it starts.
    pub combine_start_after: u32,
    /// Percent of the tokens that are summed by the cores outside of Combine's group.
    pub early_percent: u32,
    /// Expert whose rows have left before those tokens are turned to.
    pub early_start_after: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}
