//! Host tiling: which of the three paths, and where everything lies in UB.

use bytemuck::{Pod, Zeroable};
use megamoe_window::layout::{COUNTS_PER_LINE, LINE_WORDS};
use moe_core::limits::COUNT_MARKER;
use moe_core::numerics::Q_MAX;
use moe_core::onchip::{MAX_LINE, usable_ub};
use moe_core::{FloatType, OnChip, Plan, PlanError, Problem, Soc};

/// What the kernel reads. Offsets are bytes of UB.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct FrontTiling {
    /// Tokens of the rank.
    pub num_tokens: u32,
    /// Columns of a token.
    pub hidden: u32,
    /// Routes of a token.
    pub top_k: u32,
    /// Routes of the rank.
    pub num_routes: u32,
    /// Experts of all ranks.
    pub num_experts: u32,
    /// Experts of each rank.
    pub experts_per_rank: u32,
    /// Rows that a rank can receive.
    pub max_output_size: u32,
    /// Whether tokens are bf16, not f16.
    pub input_is_bf16: u32,
    /// Added to every published count.
    pub count_marker: i32,
    /// Largest int8 value.
    pub q_max: f32,
    /// Routes that are numbered at a time.
    pub piece: u32,
    /// Columns that are quantised at a time.
    pub chunk: u32,
    /// Rows of each expert, int32.
    pub counts: u32,
    /// Next row of each expert, int32.
    pub next: u32,
    /// A row of counts as it is published, or one more int32 than a rank has experts.
    pub publish: u32,
    /// Expert ids of a piece, int32.
    pub ids: u32,
    /// Rows of a piece, int32.
    pub rows: u32,
    /// Two buffers of a chunk of a token.
    pub input: u32,
    /// A chunk, fp32.
    pub wide: u32,
    /// Scratch of a chunk, fp32.
    pub tmp: u32,
    /// A chunk, as halves.
    pub halves: u32,
    /// A chunk, int8.
    pub q: u32,
    /// Scale and zeros behind a row.
    pub tail: u32,
    /// A maximum.
    pub max: u32,
    /// How routes are numbered, a [`Path`].
    pub path: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}

/// How routes are numbered.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Every core sorts all routes.
    FullLoad,
    /// One core sorts.
    OneCore,
    /// Every core sorts its own tokens' routes.
    MultiCore,
}

/// Routes up to which one core may hold them all.
const MAX_ROUTES_OF_A_CORE: u32 = 6144;
/// Hidden sizes up to which every core may hold them all.
const MAX_FULL_LOAD_HIDDEN: u32 = 8192;
const MIN_CHUNK: u32 = 256;
/// Rows of counts in the workspace start at multiples of 32 bytes.
const WORKSPACE_ALIGN: u64 = 32;

impl Path {
    /// The published rule: by the working set of a core that holds everything.
    #[must_use]
    pub fn choose(problem: &Problem, rank: u32, soc: &Soc) -> Self {
        let routes = problem.num_routes(rank);
        if routes > MAX_ROUTES_OF_A_CORE {
            return Self::MultiCore;
        }
        let align = |value: u64| value.next_multiple_of(32);
        let working_set = 36 * align(routes.into())
            + align(4 * u64::from(problem.num_experts()))
            + 13 * align(problem.hidden().into())
            + 64;
        if problem.hidden() <= MAX_FULL_LOAD_HIDDEN && working_set <= soc.ub_bytes {
            Self::FullLoad
        } else {
            Self::OneCore
        }
    }
}

pub(crate) fn plan(
    name: &'static str,
    path: Path,
    problem: &Problem,
    rank: u32,
    soc: &Soc,
) -> Result<Plan<FrontTiling>, PlanError> {
    let mut chunk = problem.hidden().min(MAX_LINE);
    let (mut tiling, mut ub) = place(path, problem, rank, chunk);
    while ub.used() > usable_ub(soc) && chunk > MIN_CHUNK {
        chunk = (chunk / 2).next_multiple_of(32);
        (tiling, ub) = place(path, problem, rank, chunk);
    }
    ub.check_ub(
        name,
        "counts, a piece of routes and a chunk of a token",
        soc,
    )?;
    let workers = u64::from(soc.num_aiv());
    let row_bytes = (4 * u64::from(problem.num_experts())).next_multiple_of(WORKSPACE_ALIGN);
    Ok(Plan {
        tiling,
        workspace_bytes: if path == Path::MultiCore {
            workers * row_bytes
        } else {
            0
        },
        num_blocks: soc.num_aic,
    })
}

fn place(path: Path, problem: &Problem, rank: u32, chunk: u32) -> (FrontTiling, OnChip) {
    let routes = problem.num_routes(rank);
    let experts = u64::from(problem.num_experts());
    let (piece, wide) = (routes.clamp(1, MAX_LINE / 2), u64::from(chunk));
    let publish_words = (experts.div_ceil(COUNTS_PER_LINE) * LINE_WORDS)
        .max(u64::from(problem.experts_per_rank()) + 1);
    let mut ub = OnChip::default();
    let tiling = FrontTiling {
        num_tokens: problem.num_tokens(rank),
        hidden: problem.hidden(),
        top_k: problem.top_k(),
        num_routes: routes,
        num_experts: problem.num_experts(),
        experts_per_rank: problem.experts_per_rank(),
        max_output_size: problem.max_output_size(),
        input_is_bf16: u32::from(problem.input_type() == FloatType::Bf16),
        count_marker: COUNT_MARKER,
        q_max: Q_MAX,
        piece,
        chunk,
        counts: ub.take(4 * experts),
        next: ub.take(4 * experts),
        publish: ub.take(4 * publish_words),
        ids: ub.take(4 * u64::from(piece)),
        rows: ub.take(4 * u64::from(piece)),
        input: ub.take(4 * wide),
        wide: ub.take(4 * wide),
        tmp: ub.take(4 * wide),
        halves: ub.take(2 * wide),
        q: ub.take(wide),
        tail: ub.take(32),
        max: ub.take(32),
        path: path as u32,
        reserved: 0,
    };
    (tiling, ub)
}
