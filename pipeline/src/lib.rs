//! One MoE FFN layer from its stages, and what the `megamoe` command is made of.
//!
//! | module | holds |
//! |---|---|
//! | [`layer`] | the layer on one rank: built once, launched often, as one fused kernel or stage after stage |
//! | [`check`] | launches of all ranks in checked mode |
//! | [`schedule`] | which cores of the fused kernel take what, and when |
//! | [`npu`] | the same on NPUs: kernels, devices, windows |
//! | [`rank`] | one launch on one rank with the oracles as its stages, its peers behind the window |
//! | [`trace`] | what the cores of a fused launch did: table, trace, picture |
//! | [`mod@reference`] | the layer's oracle: the chain of the stages' oracles over all ranks |
//! | [`generate`] | inputs of all ranks, made in parallel |
//! | [`case`] | case directories: the published format and our own |
//! | [`verify`] | how far two outputs are apart |
//! | [`sample`] | the layer's oracle for some of the tokens |
#![deny(missing_docs)]

pub mod case;
pub mod check;
pub mod generate;
pub mod layer;
pub mod npu;
pub mod rank;
pub mod reference;
pub mod sample;
pub mod schedule;
pub mod trace;
pub mod verify;
