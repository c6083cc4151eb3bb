//! Host tiling: where everything lies in UB, and in which pieces a row is taken.

use bytemuck::{Pod, Zeroable};
use moe_core::numerics::{EMPTY_SWIGLU_SCALE, GELU_CUBIC, GELU_MINUS_TWO_SQRT_2_OVER_PI, Q_MAX};
use moe_core::onchip::{ONCHIP_ALIGN, OnChip, usable_ub};
use moe_core::{Plan, PlanError, Problem, Soc};

use crate::reference::ActivationOptions;

/// What the kernel reads. Offsets are bytes of UB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct SwigluTiling {
    /// Local experts.
    pub experts_per_rank: u32,
    /// Columns of the result.
    pub intermediate: u32,
    /// Columns that are taken at a time.
    pub chunk: u32,
    /// Rows whose scales are stored together.
    pub scales_per_store: u32,
    /// Two buffers of gate and up, as halves.
    pub input: u32,
    /// Bytes of one of them.
    pub input_bytes: u32,
    /// A chunk of the first half, fp32.
    pub up: u32,
    /// A chunk of the second half, fp32.
    pub gate: u32,
    /// A chunk of scratch, 32-bit.
    pub tmp: u32,
    /// A whole row of the result, fp32.
    pub y: u32,
    /// A whole row of the result, int8.
    pub q: u32,
    /// Scales to be stored.
    pub scales: u32,
    /// A row maximum.
    pub max: u32,
    /// Whether the inputs are clamped.
    pub has_limit: u32,
    /// Where.
    pub limit: f32,
    /// Largest int8 value.
    pub q_max: f32,
    /// Row scale of a row of zeros.
    pub empty_scale: f32,
    /// Constant of GELU.
    pub gelu_cubic: f32,
    /// Constant of GELU.
    pub gelu_exponent: f32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

/// Largest chunk: enough to keep the vector unit busy, small enough to leave room for long rows.
const MAX_CHUNK: u32 = 2048;
/// Smallest chunk worth loading: below, a transfer costs more than its bytes.
const MIN_CHUNK: u32 = 256;
const SCALES_PER_STORE: u32 = 64;

pub(crate) fn plan(
    name: &'static str,
    options: ActivationOptions,
    problem: &Problem,
    soc: &Soc,
) -> Result<Plan<SwigluTiling>, PlanError> {
    if let Some(limit) = options
        .limit
        .filter(|limit| !(limit.is_finite() && *limit > 0.0))
    {
        return Err(PlanError::Option {
            stage: name,
            name: "limit",
            value: limit.to_string(),
            rule: "must be finite and above 0".to_owned(),
        });
    }
    let mut chunk = problem.intermediate().min(MAX_CHUNK);
    let (mut tiling, mut ub) = place(options, problem, chunk);
    while ub.used() > usable_ub(soc) && chunk > MIN_CHUNK {
        chunk = (chunk / 2).next_multiple_of(ONCHIP_ALIGN);
        (tiling, ub) = place(options, problem, chunk);
    }
    ub.check_ub(
        name,
        &format!("a row of {} columns", problem.intermediate()),
        soc,
    )?;
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}

/// The tiling for a chunk, and the UB that it takes.
fn place(options: ActivationOptions, problem: &Problem, chunk: u32) -> (SwigluTiling, OnChip) {
    let intermediate = problem.intermediate();
    let wide = u64::from(chunk);
    let mut ub = OnChip::default();
    let tiling = SwigluTiling {
        experts_per_rank: problem.experts_per_rank(),
        intermediate,
        chunk,
        scales_per_store: SCALES_PER_STORE,
        input: ub.take(8 * wide),
        input_bytes: 4 * chunk,
        up: ub.take(4 * wide),
        gate: ub.take(4 * wide),
        tmp: ub.take(4 * wide),
        y: ub.take(4 * u64::from(intermediate)),
        q: ub.take(intermediate.into()),
        scales: ub.take(4 * u64::from(SCALES_PER_STORE)),
        max: ub.take(ONCHIP_ALIGN.into()),
        has_limit: u32::from(options.limit.is_some()),
        limit: options.limit.unwrap_or_default(),
        q_max: Q_MAX,
        empty_scale: EMPTY_SWIGLU_SCALE,
        gelu_cubic: GELU_CUBIC,
        gelu_exponent: GELU_MINUS_TWO_SQRT_2_OVER_PI,
        reserved: 0,
    };
    (tiling, ub)
}
