//! Host tiling: blocks of rows and columns, and where everything lies in UB.

use bytemuck::{Pod, Zeroable};
use moe_core::onchip::MAX_LINE;
use moe_core::{FloatType, OnChip, Plan, PlanError, Problem, Soc};

/// What the kernel reads. Offsets are bytes of UB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct CombineTiling {
    /// Local experts.
    pub experts_per_rank: u32,
    /// Columns of a row.
    pub hidden: u32,
    /// Rows of a block.
    pub block_rows: u32,
    /// Columns of a block.
    pub block_cols: u32,
    /// Columns that are taken at a time.
    pub chunk: u32,
    /// Whether rows return as bf16, not f16.
    pub output_is_bf16: u32,
    /// Two buffers of a chunk, as halves.
    pub input: u32,
    /// A chunk, fp32.
    pub wide: u32,
    /// Two buffers of a chunk, in the output type.
    pub out: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

pub(crate) fn plan(
    name: &'static str,
    (block_rows, block_cols): (u32, u32),
    problem: &Problem,
    soc: &Soc,
) -> Result<Plan<CombineTiling>, PlanError> {
    let block_cols = problem.hidden().min(block_cols);
    let chunk = block_cols.min(MAX_LINE);
    let wide = u64::from(chunk);
    let mut ub = OnChip::default();
    let tiling = CombineTiling {
        experts_per_rank: problem.experts_per_rank(),
        hidden: problem.hidden(),
        block_rows,
        block_cols,
        chunk,
        output_is_bf16: u32::from(problem.output_type() == FloatType::Bf16),
        input: ub.take(4 * wide),
        wide: ub.take(4 * wide),
        out: ub.take(4 * wide),
        reserved: 0,
    };
    ub.check_ub(name, "the buffers of a row", soc)?;
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}
