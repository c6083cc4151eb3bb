//! The activation between the two matmuls, and the quantisation of its result.
//!
//! ```text
//! v[j] = f32(h[row][j]) * row_scale[row]                    j in 0 .. 2 * intermediate
//! y[j] = act(v[j]) * v[intermediate + j]                    act = SiLU or GELU; the inputs may be clamped
//! q, q_scale = quant_swiglu(y)
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `h` | `[num_rows, 2 * intermediate]` | f16 |
//! | `row_scale` | `[num_rows]` | f32 |
//! | `q` | `[num_rows, intermediate]` | i8 |
//! | `q_scale` | `[num_rows]` | f32 |
//!
//! | file | holds |
//! |---|---|
//! | `kernel/swiglu.h` | the stage on the device |
//! | [`tiling`] | its sizes and offsets |
//! | [`mod@reference`] | its oracle |
#![deny(missing_docs)]

pub mod reference;
pub mod tiling;

use megamoe_device::{Kernel, RunStage};
use moe_core::{KernelSource, Plan, PlanError, Problem, Soc, Stage};

use reference::{Activation, ActivationOptions};
pub use tiling::SwigluTiling;

/// The stage on vector cores; its rows are split over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Swiglu {
    /// Function and limit.
    pub options: ActivationOptions,
}

impl Swiglu {
    /// Every variant, for tests and lists.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for activation in [Activation::Silu, Activation::Gelu] {
            for limit in [None, Some(7.0)] {
                all.push(Self {
                    options: ActivationOptions { activation, limit },
                });
            }
        }
        all
    }
}

impl Stage for Swiglu {
    type Slot = moe_core::slot::Swiglu;
    type Tiling = SwigluTiling;

    fn name(&self) -> &'static str {
        match self.options.activation {
            Activation::Silu => "swiglu-silu",
            Activation::Gelu => "swiglu-gelu",
        }
    }

    fn kernel_source(&self) -> KernelSource {
        KernelSource {
            header: "swiglu.h",
            class: match self.options.activation {
                Activation::Silu => "megamoe::Swiglu<megamoe::Silu, Sync>",
                Activation::Gelu => "megamoe::Swiglu<megamoe::Gelu, Sync>",
            },
        }
    }

    fn plan(
        &self,
        problem: &Problem,
        _rank: u32,
        soc: &Soc,
    ) -> Result<Plan<SwigluTiling>, PlanError> {
        tiling::plan(self.name(), self.options, problem, soc)
    }
}

impl RunStage for Swiglu {
    fn kernel(&self) -> Kernel {
        match self.options.activation {
            Activation::Silu => megamoe_device::kernel!(megamoe_swiglu_silu, Aiv),
            Activation::Gelu => megamoe_device::kernel!(megamoe_swiglu_gelu, Aiv),
        }
    }
}
