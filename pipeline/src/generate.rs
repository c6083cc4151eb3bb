//! Inputs of all ranks, made in parallel.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use moe_core::data::{DataKind, Generator, Matrix};
use moe_core::routing::{self, RoutingError, RoutingKind};
use moe_core::{Problem, RankInputs, RankWeights};
use rayon::prelude::*;

use crate::case::{CaseError, files};

/// Where routes come from.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutingSource {
    /// They are made.
    Made(RoutingKind),
    /// They are read from `rank{r}_expert_idx.bin` of a folder, for example one recorded from a model.
    Files(PathBuf),
}

/// A text that names no source of routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; use balanced, uniform, zipf:S, few:N or file:DIR")]
pub struct RoutingSourceError(String);

impl FromStr for RoutingSource {
    type Err = RoutingSourceError;

    fn from_str(text: &str) -> Result<Self, RoutingSourceError> {
        match text.strip_prefix("file:") {
            Some(dir) => Ok(Self::Files(dir.into())),
            None => text
                .parse()
                .map(Self::Made)
                .map_err(|error: RoutingError| RoutingSourceError(error.to_string())),
        }
    }
}

impl std::fmt::Display for RoutingSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Made(kind) => kind.fmt(f),
            Self::Files(dir) => write!(f, "file:{}", dir.display()),
        }
    }
}

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSpec {
    /// How values are made.
    pub kind: DataKind,
    /// How routes are chosen.
    pub routing: RoutingSource,
    /// Seed of everything random.
    pub seed: u64,
}

/// Inputs of every rank. `progress` is told of every finished piece of [`num_pieces`].
///
/// # Errors
/// When the routing can't be made for this problem, or its files do not fit it.
pub fn generate(
    problem: &Problem,
    spec: &DataSpec,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<RankInputs>, CaseError> {
    let ids = route(problem, spec)?;
    let ranks = (0..).zip(ids);
    Ok(ranks
        .map(|(rank, topk_ids)| rank_inputs(problem, spec, rank, topk_ids, progress))
        .collect())
}

/// Inputs of one rank: the same as [`generate`] makes for it.
///
/// # Errors
/// As for [`generate`].
pub fn generate_rank(
    problem: &Problem,
    spec: &DataSpec,
    rank: u32,
    progress: &(dyn Fn() + Sync),
) -> Result<RankInputs, CaseError> {
    let topk_ids = route(problem, spec)?.swap_remove(rank as usize);
    Ok(rank_inputs(problem, spec, rank, topk_ids, progress))
}

fn rank_inputs(
    problem: &Problem,
    spec: &DataSpec,
    rank: u32,
    topk_ids: Vec<i32>,
    progress: &(dyn Fn() + Sync),
) -> RankInputs {
    let generator = Generator::new(problem, spec.kind, spec.seed);
    let tokens = 0..problem.num_tokens(rank);
    let x = tokens.clone().into_par_iter();
    RankInputs {
        x: x.flat_map_iter(|token| generator.token(rank, token))
            .collect(),
        topk_ids,
        probs: tokens
            .flat_map(|token| generator.probs(rank, token))
            .collect(),
        weights: Arc::new(rank_weights(problem, &generator, rank, progress)),
    }
}

/// `[num_tokens, top_k]` expert ids of every rank.
fn route(problem: &Problem, spec: &DataSpec) -> Result<Vec<Vec<i32>>, CaseError> {
    let dir = match &spec.routing {
        RoutingSource::Made(kind) => return Ok(kind.generate(problem, spec.seed)?),
        RoutingSource::Files(dir) => dir,
    };
    (0..problem.num_ranks())
        .map(|rank| {
            let ids = files::read_ids(dir, problem, rank)?;
            routing::check_ids(problem, rank, &ids)?;
            Ok(ids)
        })
        .collect()
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
