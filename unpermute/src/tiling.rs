//! Host tiling: where everything lies in UB.

use bytemuck::{Pod, Zeroable};
use moe_core::onchip::MAX_LINE;
use moe_core::{FloatType, OnChip, Plan, PlanError, Problem, Soc};

/// What the kernel reads. Offsets are bytes of UB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct UnpermuteTiling {
    /// Tokens of the rank.
    pub num_tokens: u32,
    /// Columns of a row.
    pub hidden: u32,
    /// Routes of a token.
    pub top_k: u32,
    /// Experts of all ranks.
    pub num_experts: u32,
    /// Columns that are taken at a time.
    pub chunk: u32,
    /// Whether rows and output are bf16, not f16.
    pub output_is_bf16: u32,
    /// Two buffers of a chunk of a returned row.
    pub input: u32,
    /// A chunk, fp32.
    pub wide: u32,
    /// The sum, fp32.
    pub sum: u32,
    /// The rounded sum.
    pub out: u32,
    /// Experts of each rank.
    pub experts_per_rank: u32,
    /// Whether an expert's rows are back, an int32 for each.
    pub back: u32,
}

pub(crate) fn plan(
    name: &'static str,
    problem: &Problem,
    rank: u32,
    soc: &Soc,
) -> Result<Plan<UnpermuteTiling>, PlanError> {
    let chunk = problem.hidden().min(MAX_LINE);
    let wide = u64::from(chunk);
    let mut ub = OnChip::default();
    let tiling = UnpermuteTiling {
        num_tokens: problem.num_tokens(rank),
        hidden: problem.hidden(),
        top_k: problem.top_k(),
        num_experts: problem.num_experts(),
        chunk,
        output_is_bf16: u32::from(problem.output_type() == FloatType::Bf16),
        input: ub.take(4 * wide),
        wide: ub.take(4 * wide),
        sum: ub.take(4 * wide),
        out: ub.take(2 * wide),
        experts_per_rank: problem.experts_per_rank(),
        back: ub.take(4 * u64::from(problem.num_experts())),
    };
    ub.check_ub(name, "the buffers of a row", soc)?;
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}
