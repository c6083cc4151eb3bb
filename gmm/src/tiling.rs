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
    /// Whether tiles have the room of the host, not of an NPU.
    pub host_room: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

/// Choices of a schedule; the defaults are those of the published kernel, on the host those that fit its caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GmmOptions {
    /// Sizes of tiles and steps. `None`: the largest that the kernel has room for in the memories of the SoC.
    pub sizes: Option<TileSizes>,
    /// Columns of tiles that are taken together, at least 1. `None`: 9, on the host 1, so that weights stay in a cache
    /// while rows pass.
    pub swizzle: Option<u32>,
    /// Move the first worker on from expert to expert.
    pub rotate: bool,
    /// Cut experts of one row of tiles into narrower ones.
    pub narrow_single: bool,
}

impl Default for GmmOptions {
    fn default() -> Self {
        Self {
            sizes: None,
            swizzle: None,
            rotate: true,
            narrow_single: true,
        }
    }
}

/// Sizes of tiles and of the steps along k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSizes {
    /// Rows of a tile, a multiple of 16.
    pub tile_m: u32,
    /// Columns of a tile, a multiple of 32.
    pub tile_n: u32,
    /// Inner length in L1, a multiple of `k_l0`.
    pub k_l1: u32,
    /// Inner length in L0, a multiple of 32.
    pub k_l0: u32,
}

/// Rows of the kernel's largest tile.
pub const MAX_TILE_M: u32 = 128;
/// Columns of the kernel's largest tile.
pub const MAX_TILE_N: u32 = 256;
/// Inner length of its largest operands in L1.
pub const MAX_K_L1: u32 = 512;
/// Inner length of its largest operands in L0.
pub const MAX_K_L0: u32 = 128;
/// Rows of the largest tile on the host.
pub const HOST_TILE_M: u32 = 128;
/// Columns of the largest tile on the host.
pub const HOST_TILE_N: u32 = 512;
/// Inner length of the host's largest operands in L1.
pub const HOST_K_L1: u32 = 2048;
/// Inner length of the host's largest operands in L0.
pub const HOST_K_L0: u32 = 2048;
/// Columns of a fractal, and pieces of 32 bytes along k.
const UNIT: u32 = 32;

/// A room of tiles that the kernel is compiled with.
#[derive(Clone, Copy, Debug)]
struct Room {
    is_host: bool,
    swizzle: u32,
    largest: TileSizes,
}

impl Room {
    const NPU: Self = Self {
        is_host: false,
        swizzle: 9,
        largest: TileSizes {
            tile_m: MAX_TILE_M,
            tile_n: MAX_TILE_N,
            k_l1: MAX_K_L1,
            k_l0: MAX_K_L0,
        },
    };
    const HOST: Self = Self {
        is_host: true,
        swizzle: 1,
        largest: TileSizes {
            tile_m: HOST_TILE_M,
            tile_n: HOST_TILE_N,
            k_l1: HOST_K_L1,
            k_l0: HOST_K_L0,
        },
    };

    /// The larger one that a SoC has memories for.
    fn of(stage: &'static str, soc: &Soc) -> Result<Self, PlanError> {
        let fitting = |room: Self| room.check_memories(stage, soc).map(|()| room);
        fitting(Self::HOST).or_else(|_| fitting(Self::NPU))
    }

    fn places(&self) -> Places {
        let TileSizes {
            tile_m,
            tile_n,
            k_l1,
            k_l0,
        } = self.largest;
        let (l1_left_bytes, l1_right_bytes) = (tile_m * k_l1, k_l1 * tile_n);
        let mut l1 = OnChip::default();
        Places {
            l1_left: l1.take(2 * u64::from(l1_left_bytes)),
            l1_left_bytes,
            l1_right: l1.take(2 * u64::from(l1_right_bytes)),
            l1_right_bytes,
            l1_scale: l1.take(8 * u64::from(tile_n)),
            l1_used: l1.used(),
            l0_left_bytes: tile_m * k_l0,
            l0_right_bytes: k_l0 * tile_n,
        }
    }

    fn check_memories(&self, stage: &'static str, soc: &Soc) -> Result<(), PlanError> {
        let places = self.places();
        let l0 = 2 * places.l0_left_bytes.max(places.l0_right_bytes);
        let acc = 4 * self.largest.tile_m * self.largest.tile_n;
        for (memory, what, needed, available) in [
            (
                "L1",
                "two buffers of both operands",
                places.l1_used,
                soc.l1_bytes,
            ),
            ("L0", "two buffers of an operand", l0.into(), soc.l0ab_bytes),
            (
                "L0C",
                "the accumulators of a tile",
                acc.into(),
                soc.l0c_bytes,
            ),
        ] {
            if needed > available {
                return Err(PlanError::Memory {
                    stage,
                    memory,
                    what: what.to_owned(),
                    needed,
                    available,
                });
            }
        }
        Ok(())
    }
}

/// Where a room's buffers lie in L1, and their bytes.
struct Places {
    l1_left: u32,
    l1_left_bytes: u32,
    l1_right: u32,
    l1_right_bytes: u32,
    l1_scale: u32,
    l1_used: u64,
    l0_left_bytes: u32,
    l0_right_bytes: u32,
}

impl TileSizes {
    fn check(&self, stage: &'static str, largest: &Self) -> Result<(), PlanError> {
        check(stage, "tile_m", self.tile_m, 16, largest.tile_m)?;
        check(stage, "tile_n", self.tile_n, UNIT, largest.tile_n)?;
        check(stage, "k_l0", self.k_l0, UNIT, largest.k_l0)?;
        check(stage, "k_l1", self.k_l1, self.k_l0, largest.k_l1)
    }
}

fn check(
    stage: &'static str,
    name: &'static str,
    value: u32,
    unit: u32,
    max: u32,
) -> Result<(), PlanError> {
    if value > 0 && value <= max && value.is_multiple_of(unit) {
        return Ok(());
    }
    Err(PlanError::Option {
        stage,
        name,
        value: value.to_string(),
        rule: format!("must be a multiple of {unit} from {unit} to {max}"),
    })
}

pub(crate) fn plan(
    stage: &'static str,
    options: &GmmOptions,
    problem: &Problem,
    (k, n): (u32, u32),
    soc: &Soc,
) -> Result<Plan<GmmTiling>, PlanError> {
    let room = Room::of(stage, soc)?;
    let sizes = options.sizes.unwrap_or(room.largest);
    sizes.check(stage, &room.largest)?;
    let swizzle = options.swizzle.unwrap_or(room.swizzle);
    check(stage, "swizzle", swizzle, 1, u32::MAX)?;
    let places = room.places();
    let tiling = GmmTiling {
        expert_weight_bytes: packed_bytes(k.into(), n.into()),
        experts_per_rank: problem.experts_per_rank(),
        k,
        n,
        tile_m: sizes.tile_m,
        tile_n: sizes.tile_n,
        k_l1: sizes.k_l1,
        k_l0: sizes.k_l0,
        swizzle,
        rotate: options.rotate.into(),
        narrow_single: options.narrow_single.into(),
        narrow_unit: UNIT,
        l1_left: places.l1_left,
        l1_left_bytes: places.l1_left_bytes,
        l1_right: places.l1_right,
        l1_right_bytes: places.l1_right_bytes,
        l1_scale: places.l1_scale,
        l0_left_bytes: places.l0_left_bytes,
        l0_right_bytes: places.l0_right_bytes,
        host_room: room.is_host.into(),
        reserved: 0,
    };
    Ok(Plan {
        tiling,
        workspace_bytes: 0,
        num_blocks: soc.num_aic,
    })
}
