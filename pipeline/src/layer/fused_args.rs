//! What the fused kernel takes besides the arguments of its stages.

use bytemuck::{Pod, Zeroable};
use moe_core::Gm;

use crate::schedule::tiling::ScheduleTiling;

/// Counters of each expert: of arrivals in each stage, and in place of the last stage's the decision who
/// shares GMM2.
pub const HANDOVER_COUNTERS: u32 = 7;

/// Counters by which cores hand experts on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HandoverIo {
    /// `[HANDOVER_COUNTERS, experts_per_rank]` lines of 64 bytes, zero when the launch starts.
    pub counters: Gm<i32>,
    /// The same for the next launch: this launch clears them.
    pub next_counters: Gm<i32>,
}

/// Where cores log what they did.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct LogIo {
    /// Logs, one behind the other: number of spans (u64), waits for each source rank (u64 ticks), spans.
    pub cores: Gm<u8>,
    /// Bytes of a log, a multiple of 64.
    pub bytes_per_core: u64,
    /// Spans that a log has room for.
    pub max_spans: u32,
    /// Source ranks.
    pub num_ranks: u32,
}

/// A piece of work of a core; times are ticks of the system counter.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Span {
    /// When the core turned to it.
    pub asked: u64,
    /// When its input was there.
    pub begin: u64,
    /// When it was done.
    pub end: u64,
    /// Time between begin and end in which the core waited for other ranks.
    pub peer_wait: u64,
    /// Time between begin and end in which it waited for other cores, at a barrier.
    pub barrier_wait: u64,
    /// The stage, a [`moe_core::StageKind`].
    pub stage: u32,
    /// The local expert; all ones where a stage does not go by experts.
    pub expert: u32,
}

/// The launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FusedTiling {
    /// Who does what.
    pub schedule: ScheduleTiling,
    /// Hand-overs between cores.
    pub handover: HandoverIo,
    /// Logs.
    pub log: LogIo,
    /// Tokens of the rank in this launch.
    pub num_tokens: u32,
    /// Whether tokens are bf16, not f16.
    pub input_is_bf16: u32,
    /// Whether rows return and results leave as bf16, not f16.
    pub output_is_bf16: u32,
    /// Keeps the size a multiple of 8.
    pub reserved: u32,
}
