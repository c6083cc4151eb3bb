//! The positions of the operator and the contract of each: which views in global memory go in and out.
//!
//! ```text
//!  x, topk_ids            rows, row_scale          h            q, q_scale           h2
//! ------------> Front ==> Dispatch ------> GMM1 ------> SwiGLU ------> GMM2 ------> Combine ==> Unpermute --> out
//!                 |  window  ^                                                          |  window   ^
//!                 |          |  RouteMetadata                                           |           |
//!                 +----------+----------------------------------------------------------+-----------+
//! ```
//!
//! Every `Io` struct is declared here once and reaches device code through a generated header, where
//! `Gm<T>` is a `__gm__ T *`. Shapes are outermost first. `num_rows` stands for the rows that the rank
//! received, at most `max_output_size`; they are ordered by local expert, then source rank, then the
//! source's route order. Expert `e` owns rows `expert_offset[e] .. expert_offset[e + 1]`.

use bytemuck::{Pod, Zeroable};
use half::f16;
use serde::{Deserialize, Serialize};

use crate::gm::Gm;

/// A position in the operator.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Sorts routes by expert, quantises tokens, publishes counts.
    FrontReorder,
    /// Pulls the rows of this rank's experts from every source rank.
    Dispatch,
    /// First grouped matmul.
    Gmm1,
    /// Activation and dynamic quantisation.
    Swiglu,
    /// Second grouped matmul.
    Gmm2,
    /// Returns rows to their source ranks.
    Combine,
    /// Sums each token's returned rows, weighted.
    Unpermute,
}

impl StageKind {
    /// All positions, in the order of the data flow.
    pub const ALL: [Self; 7] = [
        Self::FrontReorder,
        Self::Dispatch,
        Self::Gmm1,
        Self::Swiglu,
        Self::Gmm2,
        Self::Combine,
        Self::Unpermute,
    ];

    /// Name in reports, traces and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FrontReorder => "front",
            Self::Dispatch => "dispatch",
            Self::Gmm1 => "gmm1",
            Self::Swiglu => "swiglu",
            Self::Gmm2 => "gmm2",
            Self::Combine => "combine",
            Self::Unpermute => "unpermute",
        }
    }
}

impl std::fmt::Display for StageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// One position: its kind and the views that an implementation works on.
pub trait Slot {
    /// Which position.
    const KIND: StageKind;
    /// Views in global memory, `#[repr(C)]`.
    type Io: Pod;
}

/// Where the rows of a rank come from and go to. Written by FrontReorder from the counts of all ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct RouteMetadata {
    /// `[num_ranks, experts_per_rank]`: first row of (source rank, my local expert) among the source's packed rows.
    pub pre_sum: Gm<i32>,
    /// `[num_ranks, experts_per_rank]`: rows for my local expert from source ranks `0..=src` (inclusive), before clipping.
    pub cumsum: Gm<i32>,
    /// `[experts_per_rank + 1]`: first row of each local expert, clipped at `max_output_size`; the last is `num_rows`.
    pub expert_offset: Gm<i32>,
    /// `[experts_per_rank]`: rows of each local expert before clipping (the operator's expert token numbers).
    pub expert_token_nums: Gm<i32>,
    /// `[num_experts]`: end of the rows of each global expert among **my** packed rows that its rank kept;
    /// my rows from there to the end of the expert were dropped by the capacity of that rank.
    pub kept_end: Gm<i32>,
}

/// Views of FrontReorder.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct FrontReorderIo {
    /// `[num_tokens, hidden]` bits of bf16 or f16.
    pub x: Gm<u16>,
    /// `[num_tokens, top_k]` global expert of each route, -1 for none.
    pub topk_ids: Gm<i32>,
    /// Out: `[num_tokens * top_k]` packed row of each route, -1 for a route without an expert.
    pub row_of_route: Gm<i32>,
    /// Out.
    pub metadata: RouteMetadata,
    /// The window map; packed rows and counts go out through it.
    pub window: Gm<u8>,
    /// Scratch, its size is in the plan.
    pub workspace: Gm<u8>,
}

/// Views of Dispatch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct DispatchIo {
    /// In.
    pub metadata: RouteMetadata,
    /// The window map; packed rows come in through it.
    pub window: Gm<u8>,
    /// Out: `[num_rows, hidden]`.
    pub rows: Gm<i8>,
    /// Out: `[num_rows]` row scale of each row.
    pub row_scale: Gm<f32>,
    /// Out: `[num_ranks, experts_per_rank]` rows that the capacity dropped, by source rank and local expert.
    pub dropped: Gm<i32>,
}

/// Views of a grouped matmul, `c = f16(a x weight * channel_scale)`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct GmmIo {
    /// `[experts_per_rank + 1]` first row of each local expert.
    pub expert_offset: Gm<i32>,
    /// `[num_rows, k]`.
    pub a: Gm<i8>,
    /// `[experts_per_rank]` packed weights of `[k, n]`.
    pub weight: Gm<i8>,
    /// `[experts_per_rank, n]` fixpipe scales: fp32 bits in the low half.
    pub channel_scale: Gm<u64>,
    /// Out: `[num_rows, n]`.
    pub c: Gm<f16>,
}

/// Views of the activation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SwigluIo {
    /// `[experts_per_rank + 1]` first row of each local expert.
    pub expert_offset: Gm<i32>,
    /// `[num_rows, 2 * intermediate]`: the half that the activation takes, then the half that multiplies.
    pub h: Gm<f16>,
    /// `[num_rows]` row scale from Dispatch.
    pub row_scale: Gm<f32>,
    /// Out: `[num_rows, intermediate]`.
    pub q: Gm<i8>,
    /// Out: `[num_rows]` row scale of `q`.
    pub q_scale: Gm<f32>,
}

/// Views of Combine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CombineIo {
    /// In.
    pub metadata: RouteMetadata,
    /// The window map; returned rows go out through it.
    pub window: Gm<u8>,
    /// `[num_rows, hidden]`.
    pub h2: Gm<f16>,
    /// `[num_rows]` row scale from the activation.
    pub row_scale: Gm<f32>,
}

/// Views of Unpermute.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct UnpermuteIo {
    /// `[num_tokens, top_k]` global expert of each route, -1 for none.
    pub topk_ids: Gm<i32>,
    /// `[num_tokens * top_k]` packed row of each route, -1 for none.
    pub row_of_route: Gm<i32>,
    /// `[num_tokens, top_k]` weight of each route.
    pub probs: Gm<f32>,
    /// `[num_experts]` see [`RouteMetadata::kept_end`].
    pub kept_end: Gm<i32>,
    /// The window map; returned rows come in through it.
    pub window: Gm<u8>,
    /// Out: `[num_tokens, hidden]` bits of the output type.
    pub out: Gm<u16>,
}

macro_rules! slots {
    ($($(#[$doc:meta])* $slot:ident($io:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $slot;

        impl Slot for $slot {
            const KIND: StageKind = StageKind::$slot;
            type Io = $io;
        }
    )*};
}

slots! {
    /// `x, topk_ids` to packed rows, counts and [`RouteMetadata`].
    FrontReorder(FrontReorderIo);
    /// Packed rows of all sources to rows of this rank's experts.
    Dispatch(DispatchIo);
    /// Rows to gate and up.
    Gmm1(GmmIo);
    /// Gate and up to quantised rows.
    Swiglu(SwigluIo);
    /// Quantised rows to expert outputs.
    Gmm2(GmmIo);
    /// Expert outputs to returned rows at their source.
    Combine(CombineIo);
    /// Returned rows to the output.
    Unpermute(UnpermuteIo);
}
