//! Host tiling: where everything lies in UB.

use bytemuck::{Pod, Zeroable};
use moe_core::onchip::MAX_LINE;
use moe_core::{OnChip, Plan, PlanError, Problem, Soc};

/// What the kernel reads. Offsets are bytes of UB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct DispatchTiling {
    /// Local experts.
    pub experts_per_rank: u32,
    /// Bytes of a row.
    pub hidden: u32,
    /// Bytes of a row that are moved at a time.
    pub chunk: u32,
    /// Two buffers of a chunk.
    pub row: u32,
    /// Scales of rows, 32 bytes apart.
    pub scales: u32,
    /// Rows whose scales are stored together.
    pub scales_per_store: u32,
    /// Counts of dropped rows of a source, by expert.
    pub dropped: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

/// Room of the kernel's scales.
pub const SCALES_PER_STORE: u32 = 64;

pub(crate) fn plan(
    name: &'static str,
    problem: &Problem,
    soc: &Soc,
) -> Result<Plan<DispatchTiling>, PlanError> {
    let chunk = problem.hidden().min(MAX_LINE);
    let mut ub = OnChip::default();
    let tiling = DispatchTiling {
        experts_per_rank: problem.experts_per_rank(),
        hidden: problem.hidden(),
        chunk,
        row: ub.take(2 * u64::from(chunk)),
        scales: ub.take(32 * u64::from(SCALES_PER_STORE)),
        scales_per_store: SCALES_PER_STORE,
        dropped: ub.take(4 * u64::from(problem.experts_per_rank())),
        reserved: 0,
    };
    ub.check_ub(name, "two buffers of a row", soc)?;
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}
