//! Inputs of all ranks, made in parallel.

use std::sync::Arc;

use moe_core::data::{DataKind, Generator, Matrix};
use moe_core::routing::{RoutingError, RoutingKind};
use moe_core::{Problem, RankInputs, RankWeights};
use rayon::prelude::*;

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSpec {
    /// How values are made.
    pub kind: DataKind,
    /// How routes are chosen.
    pub routing: RoutingKind,
    /// Seed of everything random.
    pub seed: u64,
}

/// Inputs of every rank. `progress` is told of every finished piece of [`num_pieces`].
///
/// # Errors
/// When the routing can't be made for this problem.
pub fn generate(
    problem: &Problem,
    spec: &DataSpec,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<RankInputs>, RoutingError> {
    let ids = spec.routing.generate(problem, spec.seed)?;
    let generator = Generator::new(problem, spec.kind, spec.seed);
    Ok((0..problem.num_ranks())
        .zip(ids)
        .map(|(rank, topk_ids)| {
            let tokens = 0..problem.num_tokens(rank);
            RankInputs {
                x: tokens
                    .clone()
                    .into_par_iter()
                    .flat_map_iter(|t| generator.token(rank, t))
                    .collect(),
                topk_ids,
                probs: tokens.flat_map(|t| generator.probs(rank, t)).collect(),
                weights: Arc::new(rank_weights(problem, &generator, rank, progress)),
            }
        })
        .collect())
}

/// Pieces of work that [`generate`] reports: the experts' matrices, which are nearly all of it.
#[must_use]
pub fn num_pieces(problem: &Problem) -> u64 {
    2 * u64::from(problem.num_experts())
}

fn rank_weights(
    problem: &Problem,
    generator: &Generator<'_>,
    rank: u32,
    progress: &(dyn Fn() + Sync),
) -> RankWeights {
    let packed = |matrix: Matrix| {
        let experts: Vec<Vec<i8>> = (0..problem.experts_per_rank())
            .into_par_iter()
            .map(|expert| {
                let packed = generator.weight(matrix, rank, expert);
                progress();
                packed
            })
            .collect();
        experts.concat()
    };
    RankWeights {
        weight1: packed(Matrix::Weight1),
        scale1: generator.scales(Matrix::Weight1, rank),
        weight2: packed(Matrix::Weight2),
        scale2: generator.scales(Matrix::Weight2, rank),
    }
}
