//! Grouped matmul: each local expert's rows times its weights, for GMM1 and GMM2.
//!
//! ```text
//! acc[i][n] = sum over k of a[i][k] * weight[e][k][n]             (exact, int32)
//! c[i][n]   = f16(clamp(acc[i][n] * fixpipe_scale(scale[e][n]), +-65504))
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `a` | `[num_rows, k]` | i8 |
//! | `weight` | `[experts_per_rank]` packed `[k, n]` ([`moe_core::weights`]) | i8 |
//! | `channel_scale` | `[experts_per_rank, n]` | u64, fp32 bits in the low half |
//! | `c` | `[num_rows, n]` | f16 |
//!
//! GMM1 has `k = hidden`, `n = 2 * intermediate`; GMM2 has `k = intermediate`, `n = hidden`.
//!
//! | file | holds |
//! |---|---|
//! | `kernel/gmm.h` | the stage on the device |
//! | [`tiling`] | its sizes and offsets |
//! | [`packing`] | weights to and from the packed layout |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod packing;
pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

pub use tiling::{GmmOptions, GmmTiling, TileSizes};

macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal, |$problem:ident| $sizes:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $stage {
            /// Tiles and schedule.
            pub options: GmmOptions,
        }

        impl Stage for $stage {
            type Slot = moe_core::slot::$stage;
            type Tiling = GmmTiling;

            fn name(&self) -> &'static str {
                $name
            }

            fn kernel_source(&self) -> KernelSource {
                KernelSource {
                    header: "gmm.h",
                    class: "megamoe::Gmm<Sync>",
                }
            }

            fn plan(
                &self,
                $problem: &Problem,
                _rank: u32,
                soc: &Soc,
            ) -> Result<Plan<GmmTiling>, PlanError> {
                tiling::plan(self.name(), &self.options, $problem, $sizes, soc)
            }
        }

        impl RunStage for $stage {
            fn kernel(&self) -> Kernel {
                megamoe_device::kernel!(megamoe_gmm, Aic)
            }
        }
    )*};
}

stages! {
    /// Rows times gate and up weights.
    Gmm1 = "gmm1-tiled", |problem| (problem.hidden(), problem.gate_up());
    /// Activated rows times down weights.
    Gmm2 = "gmm2-tiled", |problem| (problem.intermediate(), problem.hidden());
}
