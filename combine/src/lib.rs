//! Combine: scales expert outputs and returns them to the rank that each row came from.
//!
//! ```text
//! returned_rows[source][run.source_row + i] = T(f32(h2[run.row + i]) * row_scale[run.row + i])
//! ```
//!
//! for the runs of [`moe_core::exchange::CountTable::runs`]; `T` is the output type, nearest even.
//!
//! | view | shape | type |
//! |---|---|---|
//! | `h2` | `[num_rows, hidden]` | f16 |
//! | `row_scale` | `[num_rows]` | f32 |
//! | `returned_rows` of each source | `[num_routes, hidden]` | f16 or bf16 |
//!
//! A returned row has the number of the packed row that it answers. A row that the capacity dropped is
//! not written.
//!
//! | file | holds |
//! |---|---|
//! | `kernel/combine.h` | the stage on the device |
//! | [`tiling`] | its sizes and offsets |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

pub use tiling::CombineTiling;

macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $name:literal, $block:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $stage;

        impl Stage for $stage {
            type Slot = moe_core::slot::Combine;
            type Tiling = CombineTiling;

            fn name(&self) -> &'static str {
                $name
            }

            fn kernel_source(&self) -> KernelSource {
                KernelSource {
                    header: "combine.h",
                    class: "megamoe::Combine<Out, Sync>",
                }
            }

            fn plan(
                &self,
                problem: &Problem,
                _rank: u32,
                soc: &Soc,
            ) -> Result<Plan<CombineTiling>, PlanError> {
                tiling::plan(self.name(), $block, problem, soc)
            }
        }

        impl RunStage for $stage {
            fn kernel(&self) -> Kernel {
                megamoe_device::kernel!(megamoe_combine, Aiv)
            }
        }
    )*};
}

stages! {
    /// Whole rows: for many tokens.
    DirectLarge = "combine-large", (1, u32::MAX);
    /// Blocks of 16 rows and 256 columns, so that few rows occupy many cores.
    DirectSmall = "combine-small", (16, 256);
}
