//! One MoE FFN layer from its stages, and what the `megamoe` command is made of.
//!
//! | module | holds |
//! |---|---|
//! | [`kernels`] | one launch on one rank, stage after stage as kernels of a device |
//! | [`rank`] | one launch on one rank, its peers behind the window |
//! | [`mod@reference`] | the layer's oracle: the chain of the stages' oracles over all ranks |
//! | [`generate`] | inputs of all ranks, made in parallel |
//! | [`case`] | case directories: the published format and our own |
//! | [`verify`] | how far two outputs are apart |
//! | [`sample`] | the layer's oracle for some of the tokens |
#![deny(missing_docs)]

pub mod case;
pub mod generate;
pub mod kernels;
pub mod rank;
pub mod reference;
pub mod sample;
pub mod verify;
