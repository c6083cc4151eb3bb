//! Words that every MegaMoE crate shares.
//!
//! | module | holds |
//! |---|---|
//! | [`problem`] | sizes of one layer, checked once |
//! | [`limits`] | every limit, in one place |
//! | [`numerics`] | every rounding of the layer |
//! | [`routing`] | which experts tokens go to: checks, generators, balance |
//! | [`rng`] | a seeded generator |
//! | [`soc`] | what a device offers |
//! | [`onchip`] | addresses in on-chip memories |
//! | [`gm`] | typed addresses in global memory |
//! | [`slot`] | the positions of the operator and the views of each |
//! | [`exchange`] | who sends which rows where, and the one clip rule |
//! | [`weights`] | the packed layout of int8 weights |
//! | [`inputs`] | what one rank brings |
//! | [`data`] | data for runs and tests |
//! | [`stage`] | what an implementation of a slot is |
#![deny(missing_docs)]

pub mod data;
pub mod exchange;
pub mod gm;
pub mod inputs;
pub mod limits;
pub mod numerics;
pub mod onchip;
pub mod problem;
pub mod rng;
pub mod routing;
pub mod slot;
pub mod soc;
pub mod stage;
pub mod weights;

pub use gm::Gm;
pub use inputs::{InputError, InputSizes, RankInputs, RankWeights};
pub use onchip::OnChip;
pub use problem::{FloatType, Problem, ProblemError, ProblemSpec};
pub use slot::{Slot, StageKind};
pub use soc::Soc;
pub use stage::{KernelSource, Plan, PlanError, Stage};
