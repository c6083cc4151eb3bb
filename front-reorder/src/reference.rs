//! The oracle: a stable counting sort and one quantisation per token.

use half::{bf16, f16};
use moe_core::numerics::{Float16, quant_front};
use moe_core::{FloatType, Problem};

/// What FrontReorder makes of one rank's tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct FrontOutput {
    /// `[num_routes, packed_row_bytes]`; rows of routes without an expert do not exist, so the last rows
    /// may be unused and are zero.
    pub packed_rows: Vec<u8>,
    /// `[num_tokens * top_k]`, -1 for a route without an expert.
    pub row_of_route: Vec<i32>,
    /// `[num_experts]`.
    pub counts: Vec<u32>,
}

/// FrontReorder of `rank`: `x` is `[num_tokens, hidden]` bits of the input type, `topk_ids` is
/// `[num_tokens, top_k]` and checked.
#[must_use]
pub fn front_reorder(problem: &Problem, rank: u32, x: &[u16], topk_ids: &[i32]) -> FrontOutput {
    let (row_of_route, counts) = sort_routes(problem, topk_ids);
    let row_bytes = problem.packed_row_bytes() as usize;
    let mut packed_rows = vec![0; problem.num_routes(rank) as usize * row_bytes];
    let tokens = x.chunks_exact(problem.hidden() as usize);
    for (token, rows) in tokens.zip(row_of_route.chunks(problem.top_k() as usize)) {
        let packed = pack_token(problem, token);
        for row in rows.iter().filter_map(|&row| usize::try_from(row).ok()) {
            packed_rows[row * row_bytes..(row + 1) * row_bytes].copy_from_slice(&packed);
        }
    }
    FrontOutput {
        packed_rows,
        row_of_route,
        counts,
    }
}

/// Row of each route and routes of each expert, by a stable sort.
fn sort_routes(problem: &Problem, topk_ids: &[i32]) -> (Vec<i32>, Vec<u32>) {
    let mut counts = vec![0u32; problem.num_experts() as usize];
    let experts = || topk_ids.iter().map(|&id| usize::try_from(id).ok());
    for expert in experts().flatten() {
        counts[expert] += 1;
    }
    let mut next: Vec<i32> = counts
        .iter()
        .scan(0, |start, &count| {
            let first = *start;
            *start += count.cast_signed();
            Some(first)
        })
        .collect();
    let row = |expert: Option<usize>| {
        expert.map_or(-1, |expert| {
            next[expert] += 1;
            next[expert] - 1
        })
    };
    (experts().map(row).collect(), counts)
}

/// One packed row: the quantised token, its scale, zeros.
fn pack_token(problem: &Problem, token: &[u16]) -> Vec<u8> {
    let values: Vec<f32> = token
        .iter()
        .map(|&bits| match problem.input_type() {
            FloatType::Bf16 => bf16::from_bits(bits).widen(),
            FloatType::F16 => f16::from_bits(bits).widen(),
        })
        .collect();
    let quantized = quant_front(&values);
    let mut packed: Vec<u8> = quantized.q.iter().map(|q| q.cast_unsigned()).collect();
    packed.extend(quantized.scale.to_le_bytes());
    packed.resize(problem.packed_row_bytes() as usize, 0);
    packed
}
