//! What one rank brings to the layer.

use std::sync::Arc;

use crate::problem::Problem;
use crate::routing::{self, RoutingError};
use crate::weights::packed_bytes;

/// Inputs of one rank. Shapes are outermost first.
#[derive(Clone, Debug, PartialEq)]
pub struct RankInputs {
    /// Tokens, `[num_tokens, hidden]` bits of the input type.
    pub x: Vec<u16>,
    /// Global expert of each route, `[num_tokens, top_k]`; -1 for none.
    pub topk_ids: Vec<i32>,
    /// Weight of each route, `[num_tokens, top_k]`.
    pub probs: Vec<f32>,
    /// The experts that live on this rank; shared, because they can be gigabytes.
    pub weights: Arc<RankWeights>,
}

/// Weights of the experts of one rank, packed as [`crate::weights`] says.
#[derive(Clone, Debug, PartialEq)]
pub struct RankWeights {
    /// GMM1: `[experts_per_rank]` matrices of `[hidden, 2 * intermediate]`.
    pub weight1: Vec<i8>,
    /// GMM1's channel scales: `[experts_per_rank, 2 * intermediate]`, fp32 bits in the low half.
    pub scale1: Vec<u64>,
    /// GMM2: `[experts_per_rank]` matrices of `[intermediate, hidden]`.
    pub weight2: Vec<i8>,
    /// GMM2's channel scales: `[experts_per_rank, hidden]`.
    pub scale2: Vec<u64>,
}

/// Inputs that do not fit the problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InputError {
    /// An array has the wrong length.
    #[error("rank {rank}: {name} has {got} elements, but the problem needs {want}")]
    Length {
        /// Rank.
        rank: u32,
        /// Which array.
        name: &'static str,
        /// Its length.
        got: u64,
        /// The length needed.
        want: u64,
    },
    /// A route or its weight can't be used.
    #[error(transparent)]
    Routing(#[from] RoutingError),
}

/// Elements of each array of one rank, in the order of the published files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputSizes {
    /// Elements of `x`, and of the output.
    pub x: u64,
    /// Elements of `topk_ids` and of `probs`.
    pub routes: u64,
    /// Elements (bytes) of one expert's packed `weight1`.
    pub weight1_per_expert: u64,
    /// Elements (bytes) of one expert's packed `weight2`.
    pub weight2_per_expert: u64,
    /// Elements of `scale1`.
    pub scale1: u64,
    /// Elements of `scale2`.
    pub scale2: u64,
    /// Experts of the rank.
    pub experts: u64,
}

impl InputSizes {
    /// The sizes of `rank`.
    #[must_use]
    pub fn of(problem: &Problem, rank: u32) -> Self {
        let (hidden, gate_up) = (u64::from(problem.hidden()), u64::from(problem.gate_up()));
        let experts = u64::from(problem.experts_per_rank());
        Self {
            x: u64::from(problem.num_tokens(rank)) * hidden,
            routes: problem.num_routes(rank).into(),
            weight1_per_expert: packed_bytes(hidden, gate_up),
            weight2_per_expert: packed_bytes(problem.intermediate().into(), hidden),
            scale1: experts * gate_up,
            scale2: experts * hidden,
            experts,
        }
    }
}

impl RankInputs {
    /// Checks every length, every expert id and every weight.
    ///
    /// # Errors
    /// [`InputError`] names the array, or the first bad route.
    pub fn check(&self, problem: &Problem, rank: u32) -> Result<(), InputError> {
        let sizes = InputSizes::of(problem, rank);
        check_length(rank, "x", self.x.len(), sizes.x)?;
        self.weights.check(&sizes, rank)?;
        routing::check_ids(problem, rank, &self.topk_ids)?;
        routing::check_probs(problem, rank, &self.probs)?;
        Ok(())
    }
}

impl RankWeights {
    /// Checks every length.
    ///
    /// # Errors
    /// [`InputError::Length`] names the array.
    pub fn check(&self, sizes: &InputSizes, rank: u32) -> Result<(), InputError> {
        let weight1 = sizes.experts * sizes.weight1_per_expert;
        let weight2 = sizes.experts * sizes.weight2_per_expert;
        check_length(rank, "weight1", self.weight1.len(), weight1)?;
        check_length(rank, "weight2", self.weight2.len(), weight2)?;
        check_length(rank, "scale1", self.scale1.len(), sizes.scale1)?;
        check_length(rank, "scale2", self.scale2.len(), sizes.scale2)
    }
}

fn check_length(rank: u32, name: &'static str, got: usize, want: u64) -> Result<(), InputError> {
    let got = got as u64;
    if got == want {
        return Ok(());
    }
    Err(InputError::Length {
        rank,
        name,
        got,
        want,
    })
}
