//! Words that every MegaMoE crate shares.
//!
//! | module | holds |
//! |---|---|
//! | [`problem`] | sizes of one layer, checked once |
//! | [`limits`] | every limit, in one place |
//! | [`soc`] | what a device offers |
#![deny(missing_docs)]

pub mod limits;
pub mod problem;
pub mod soc;

pub use problem::{FloatType, Problem, ProblemError, ProblemSpec};
pub use soc::Soc;
