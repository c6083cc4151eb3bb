//! Dispatch: pulls the packed rows of this rank's experts from every source rank.
//!
//! For each local expert and source rank, in the order of [`moe_core::exchange::CountTable::runs`]:
//!
//! ```text
//! rows[run.row + i]      = packed_rows[source][run.source_row + i][.. hidden]
//! row_scale[run.row + i] = packed_rows[source][run.source_row + i][hidden .. hidden + 4] as f32
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `packed_rows` of each source | `[num_routes, hidden + 32]` | bytes |
//! | `rows` | `[num_rows, hidden]` | i8 |
//! | `row_scale` | `[num_rows]` | f32 |
//!
//! `num_rows` is at most `max_output_size`; what does not fit is dropped and counted.
//!
//! | file | holds |
//! |---|---|
//! | `kernel/dispatch.h` | the stage on the device |
//! | [`tiling`] | its sizes and offsets |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

pub use tiling::DispatchTiling;

/// The stage on vector cores: rows of an expert are split over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatch;

impl Stage for Dispatch {
    type Slot = moe_core::slot::Dispatch;
    type Tiling = DispatchTiling;

    fn name(&self) -> &'static str {
        "dispatch-pull"
    }

    fn kernel_source(&self) -> KernelSource {
        KernelSource {
            header: "dispatch.h",
            class: "megamoe::Dispatch<Sync>",
        }
    }

    fn plan(
        &self,
        problem: &Problem,
        _rank: u32,
        soc: &Soc,
    ) -> Result<Plan<DispatchTiling>, PlanError> {
        tiling::plan(self.name(), problem, soc)
    }
}

impl RunStage for Dispatch {
    fn kernel(&self) -> Kernel {
        megamoe_device::kernel!(megamoe_dispatch, Aiv)
    }
}
