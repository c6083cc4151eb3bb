//! FrontReorder: sorts the routes of a rank by global expert and quantises its tokens.
//!
//! For each route `r = (token, slot)` with expert `e >= 0`:
//!
//! ```text
//! row_of_route[r] = number of routes with an expert below e, or with expert e and a smaller number
//! packed_rows[row_of_route[r]] = quant_front(x[token])
//! counts[e] = number of routes to e
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `x` | `[num_tokens, hidden]` | bf16 or f16 |
//! | `topk_ids` | `[num_tokens, top_k]` | i32, -1 for no expert |
//! | `packed_rows` | `[num_routes, hidden + 32]` | bytes: `hidden` int8, the fp32 row scale, 28 zero bytes |
//! | `row_of_route` | `[num_tokens * top_k]` | i32, -1 for no row |
//! | `counts` | `[num_experts]` | u32 |
//!
//! | file | holds |
//! |---|---|
//! | `kernel/front_reorder.h` | the stage on the device; `route_sort.h` has the three paths |
//! | [`tiling`] | its sizes and offsets, and which path |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, PlannedStage, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

pub use tiling::{FrontTiling, Path};

macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal, $entry:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $stage;

        impl Stage for $stage {
            type Slot = moe_core::slot::FrontReorder;
            type Tiling = FrontTiling;

            fn name(&self) -> &'static str {
                $name
            }

            fn kernel_source(&self) -> KernelSource {
                KernelSource {
                    header: "front_reorder.h",
                    class: "megamoe::FrontReorder<megamoe::AnyPath, In, Sync>",
                }
            }

            fn plan(
                &self,
                problem: &Problem,
                rank: u32,
                soc: &Soc,
            ) -> Result<Plan<FrontTiling>, PlanError> {
                tiling::plan(self.name(), Path::$stage, problem, rank, soc)
            }
        }

        impl RunStage for $stage {
            fn kernel(&self) -> Kernel {
                megamoe_device::kernel!($entry, Aiv)
            }
        }
    )*};
}

stages! {
    /// Every core sorts all routes: no exchange between cores.
    FullLoad = "front-full-load", megamoe_front_full_load;
    /// One core sorts, the others read its result.
    OneCore = "front-one-core", megamoe_front_one_core;
    /// Every core sorts its own tokens' routes.
    MultiCore = "front-multi-core", megamoe_front_multi_core;
}

/// The stage on a path.
///
/// # Errors
/// As [`Stage::plan`].
pub fn planned(
    path: Path,
    problem: &Problem,
    rank: u32,
    soc: &Soc,
) -> Result<PlannedStage<moe_core::slot::FrontReorder>, PlanError> {
    match path {
        Path::FullLoad => PlannedStage::new(&FullLoad, problem, rank, soc),
        Path::OneCore => PlannedStage::new(&OneCore, problem, rank, soc),
        Path::MultiCore => PlannedStage::new(&MultiCore, problem, rank, soc),
    }
}
