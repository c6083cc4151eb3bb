//! Unpermute: the weighted sum of each token's returned rows.
//!
//! ```text
//! out[token] = T(sum over slots j, in order, of f32(returned_rows[row_of_route[token, j]]) * probs[token, j])
//! ```
//!
//! in fp32, multiply then add (two roundings), one last rounding to the output type `T`.
//!
//! | view | shape | type |
//! |---|---|---|
//! | `returned_rows` | `[num_routes, hidden]` | f16 or bf16 |
//! | `row_of_route` | `[num_tokens * top_k]` | i32, -1 for no row |
//! | `probs` | `[num_tokens, top_k]` | f32 |
//! | `kept_end` | `[num_experts]` | u32 |
//! | `out` | `[num_tokens, hidden]` | f16 or bf16 |
//!
//! A route without a row, or whose row was dropped, contributes nothing and reads nothing.
//!
//! | file | holds |
//! |---|---|
//! | `kernel/unpermute.h` | the stage on the device |
//! | [`tiling`] | its sizes and offsets |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

pub use tiling::UnpermuteTiling;

/// The stage on vector cores: tokens are split over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpermute;

impl Stage for Unpermute {
    type Slot = moe_core::slot::Unpermute;
    type Tiling = UnpermuteTiling;

    fn name(&self) -> &'static str {
        "unpermute-direct"
    }

    fn kernel_source(&self) -> KernelSource {
        KernelSource {
            header: "unpermute.h",
            class: "megamoe::Unpermute<Out, Sync>",
        }
    }

    fn plan(
        &self,
        problem: &Problem,
        rank: u32,
        soc: &Soc,
    ) -> Result<Plan<UnpermuteTiling>, PlanError> {
        tiling::plan(self.name(), problem, rank, soc)
    }
}

impl RunStage for Unpermute {
    fn kernel(&self) -> Kernel {
        megamoe_device::kernel!(megamoe_unpermute, Aiv)
    }
}
