//! The layer's oracle for some of the tokens: a token's output depends on no other token, except
//! through the capacity, which the counts of the whole problem decide.

use std::sync::Arc;

use megamoe_swiglu::reference::ActivationOptions;
use moe_core::exchange::CountTable;
use moe_core::rng::Rng;
use moe_core::{Problem, ProblemError, ProblemSpec, RankInputs};

use crate::reference;

/// Distinguishes the stream that chooses tokens.
const SAMPLE_STREAM: u64 = 0x7361_6d70;

/// Chooses up to `count` tokens of each rank, in ascending order.
#[must_use]
pub fn choose(problem: &Problem, count: u32, seed: u64) -> Vec<Vec<u32>> {
    (0..problem.num_ranks())
        .map(|rank| {
            let mut tokens: Vec<u32> = (0..problem.num_tokens(rank)).collect();
            Rng::for_path(&[seed, SAMPLE_STREAM, rank.into()]).shuffle(&mut tokens);
            tokens.truncate(count as usize);
            tokens.sort_unstable();
            tokens
        })
        .collect()
}

/// Outputs of the chosen tokens of every rank, `[chosen, hidden]` bits of the output type each.
///
/// # Errors
/// Never for a problem that was built; the smaller problem is checked like any other.
pub fn run(
    problem: &Problem,
    inputs: &[RankInputs],
    chosen: &[Vec<u32>],
    activation: ActivationOptions,
) -> Result<Vec<Vec<u16>>, ProblemError> {
    let counts = CountTable::from_ids(problem, inputs.iter().map(|rank| rank.topk_ids.as_slice()));
    let mut picked = Vec::with_capacity(inputs.len());
    for ((rank, rank_inputs), tokens) in (0..).zip(inputs).zip(chosen) {
        picked.push(pick(problem, &counts, rank, rank_inputs, tokens));
    }
    let rows: usize = chosen.iter().map(Vec::len).sum();
    let smaller = ProblemSpec {
        tokens_per_rank: chosen.iter().map(|tokens| tokens.len() as u32).collect(),
        max_output_size: (rows as u32 * problem.top_k()).max(1),
        ..problem.spec().clone()
    };
    Ok(reference::run(&smaller.build()?, &picked, activation).out)
}

/// Inputs of some tokens; routes that the capacity drops become routes without an expert.
fn pick(
    problem: &Problem,
    counts: &CountTable,
    rank: u32,
    inputs: &RankInputs,
    tokens: &[u32],
) -> RankInputs {
    let ids = kept_ids(counts, rank, &inputs.topk_ids);
    let (hidden, top_k) = (problem.hidden() as usize, problem.top_k() as usize);
    RankInputs {
        x: rows_of(&inputs.x, hidden, tokens),
        topk_ids: rows_of(&ids, top_k, tokens),
        probs: rows_of(&inputs.probs, top_k, tokens),
        weights: Arc::clone(&inputs.weights),
    }
}

/// The expert ids of a rank, -1 where the capacity of the expert's rank drops the route.
#[must_use]
pub fn kept_ids(counts: &CountTable, rank: u32, topk_ids: &[i32]) -> Vec<i32> {
    let mut next = counts.source_offsets(rank);
    let kept_end = counts.kept_ends(rank);
    let kept = |&id: &i32| {
        let Ok(expert) = usize::try_from(id) else {
            return -1;
        };
        let row = next[expert];
        next[expert] += 1;
        if row < kept_end[expert] { id } else { -1 }
    };
    topk_ids.iter().map(kept).collect()
}

fn rows_of<T: Copy>(values: &[T], width: usize, rows: &[u32]) -> Vec<T> {
    rows.iter()
        .flat_map(|&row| {
            values[row as usize * width..(row as usize + 1) * width]
                .iter()
                .copied()
        })
        .collect()
}

/// The outputs of the chosen tokens out of all.
#[must_use]
pub fn take(problem: &Problem, out: &[Vec<u16>], chosen: &[Vec<u32>]) -> Vec<Vec<u16>> {
    let hidden = problem.hidden() as usize;
    out.iter()
        .zip(chosen)
        .map(|(out, tokens)| rows_of(out, hidden, tokens))
        .collect()
}
