//! Host tiling: sizes of tiles and steps, and where operands lie in L1 and L0.

use bytemuck::{Pod, Zeroable};
use moe_core::weights::packed_bytes;
use moe_core::{OnChip, Plan, PlanError, Problem, Soc};

/// What the kernel reads. Offsets are bytes of L1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct GmmTiling {
    /// Bytes of one expert's packed weights.
    pub expert_weight_bytes: u64,
    /// Local experts.
    pub experts_per_rank: u32,
    /// Inner length.
    pub k: u32,
    /// Columns of the result.
    pub n: u32,
    /// Rows of a tile.
    pub tile_m: u32,
    /// Columns of a tile.
    pub tile_n: u32,
    /// Inner length that L1 holds, twice.
    pub k_l1: u32,
    /// Inner length that L0 holds, twice.
    pub k_l0: u32,
    /// Columns of tiles that are taken together.
    pub swizzle: u32,
    /// Whether the first worker moves on from expert to expert.
    pub rotate: u32,
    /// Whether an expert of one row of tiles is cut into narrower ones, so that all workers get some.
    pub narrow_single: u32,
    /// Width that those are multiples of.
    pub narrow_unit: u32,
    /// Two buffers of the left operand.
    pub l1_left: u32,
    /// Bytes of one.
    pub l1_left_bytes: u32,
    /// Two buffers of the right operand.
    pub l1_right: u32,
    /// Bytes of one.
    pub l1_right_bytes: u32,
    /// Scales of a tile's columns.
    pub l1_scale: u32,
    /// Bytes of a buffer in L0A.
    pub l0_left_bytes: u32,
    /// Bytes of a buffer in L0B.
    pub l0_right_bytes: u32,
}

/// Choices of a schedule; the defaults are those of the published kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmmOptions {
    /// Rows of a tile, a multiple of 16 up to 128.
    pub tile_m: u32,
    /// Columns of a tile, a multiple of 32 up to 256.
    pub tile_n: u32,
    /// Inner length in L1, a multiple of `k_l0` up to 512.
    pub k_l1: u32,
    /// Inner length in L0, a multiple of 32 up to 128.
    pub k_l0: u32,
    /// Columns of tiles that are taken together, at least 1.
    pub swizzle: u32,
    /// Move the first worker on from expert to expert.
    pub rotate: bool,
    /// Cut experts of one row of tiles into narrower ones.
    pub narrow_single: bool,
}

impl Default for GmmOptions {
    fn default() -> Self {
        Self {
            tile_m: MAX_TILE_M,
            tile_n: MAX_TILE_N,
            k_l1: MAX_K_L1,
            k_l0: MAX_K_L0,
            swizzle: 9,
            rotate: true,
            narrow_single: true,
        }
    }
}

/// Rows of the kernel's largest tile.
pub const MAX_TILE_M: u32 = 128;
/// Columns of the kernel's largest tile.
pub const MAX_TILE_N: u32 = 256;
/// Inner length of its largest operands in L1.
pub const MAX_K_L1: u32 = 512;
/// Inner length of its largest operands in L0.
pub const MAX_K_L0: u32 = 128;
/// Columns of a fractal, and pieces of 32 bytes along k.
const UNIT: u32 = 32;

impl GmmOptions {
    fn check(&self, stage: &'static str) -> Result<(), PlanError> {
        let check = |name, value: u32, unit: u32, max: u32| {
            if value > 0 && value <= max && value.is_multiple_of(unit) {
                return Ok(());
            }
            Err(PlanError::Option {
                stage,
                name,
                value: value.to_string(),
                rule: format!("must be a multiple of {unit} from {unit} to {max}"),
            })
        };
        check("tile_m", self.tile_m, 16, MAX_TILE_M)?;
        check("tile_n", self.tile_n, UNIT, MAX_TILE_N)?;
        check("k_l0", self.k_l0, UNIT, MAX_K_L0)?;
        check("k_l1", self.k_l1, self.k_l0, MAX_K_L1)?;
        check("swizzle", self.swizzle, 1, u32::MAX)
    }
}

pub(crate) fn plan(
    stage: &'static str,
    options: &GmmOptions,
    problem: &Problem,
    (k, n): (u32, u32),
    soc: &Soc,
) -> Result<Plan<GmmTiling>, PlanError> {
    options.check(stage)?;
    let mut l1 = OnChip::default();
    let (l1_left_bytes, l1_right_bytes) = (MAX_TILE_M * MAX_K_L1, MAX_K_L1 * MAX_TILE_N);
    let tiling = GmmTiling {
        expert_weight_bytes: packed_bytes(k.into(), n.into()),
        experts_per_rank: problem.experts_per_rank(),
        k,
        n,
        tile_m: options.tile_m,
        tile_n: options.tile_n,
        k_l1: options.k_l1,
        k_l0: options.k_l0,
        swizzle: options.swizzle,
        rotate: options.rotate.into(),
        narrow_single: options.narrow_single.into(),
        narrow_unit: UNIT,
        l1_left: l1.take(2 * u64::from(l1_left_bytes)),
        l1_left_bytes,
        l1_right: l1.take(2 * u64::from(l1_right_bytes)),
        l1_right_bytes,
        l1_scale: l1.take(8 * u64::from(MAX_TILE_N)),
        l0_left_bytes: MAX_TILE_M * MAX_K_L0,
        l0_right_bytes: MAX_K_L0 * MAX_TILE_N,
    };
    let fits = |memory, what: &str, needed: u64, available: u64| {
        if needed <= available {
            return Ok(());
        }
        Err(PlanError::Memory {
            stage,
            memory,
            what: what.to_owned(),
            needed,
            available,
        })
    };
    fits(
        "L1",
        "two buffers of both operands",
        l1.used(),
        soc.l1_bytes,
    )?;
    let l0 = 2 * u64::from(tiling.l0_left_bytes.max(tiling.l0_right_bytes));
    fits("L0", "two buffers of an operand", l0, soc.l0ab_bytes)?;
    let accumulators = 4 * u64::from(MAX_TILE_M * MAX_TILE_N);
    fits(
        "L0C",
        "the accumulators of a tile",
        accumulators,
        soc.l0c_bytes,
    )?;
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}
