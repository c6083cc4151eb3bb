//! The oracle: exact int32 sums, one output row at a time, rows in parallel.
//!
//! Column blocks of the packed weights are walked as they lie, which is what makes it bearable for
//! tests; the sums are exact, so their order does not matter.

use half::f16;
use moe_core::numerics::{fixpipe_f16, fixpipe_scale};
use moe_core::weights::{FRACTAL_COLS, packed_bytes};
use rayon::prelude::*;

/// Inputs of a grouped matmul.
#[derive(Clone, Copy, Debug)]
pub struct Gmm<'a> {
    /// Width of a row of `a`.
    pub k: u32,
    /// Width of a row of the result.
    pub n: u32,
    /// First row of each local expert, and the number of rows: `[experts_per_rank + 1]`.
    pub expert_offsets: &'a [u32],
    /// `[num_rows, k]`.
    pub a: &'a [i8],
    /// `[experts_per_rank]` packed `[k, n]`.
    pub weight: &'a [i8],
    /// `[experts_per_rank, n]`.
    pub channel_scale: &'a [u64],
}

/// The result, `[num_rows, n]`.
///
/// # Panics
/// When the views do not fit `k`, `n` and the expert offsets.
#[must_use]
pub fn gmm(inputs: &Gmm<'_>) -> Vec<f16> {
    let (k, n) = (inputs.k as usize, inputs.n as usize);
    let matrix_bytes = packed_bytes(inputs.k.into(), inputs.n.into()) as usize;
    let num_rows = inputs.expert_offsets.last().copied().unwrap_or(0) as usize;
    let mut c = vec![f16::ZERO; num_rows * n];
    c.par_chunks_mut(n)
        .zip(inputs.a.par_chunks(k))
        .enumerate()
        .for_each(|(row, (c, a))| {
            let expert = inputs
                .expert_offsets
                .partition_point(|&first| first as usize <= row)
                - 1;
            let weight = &inputs.weight[expert * matrix_bytes..(expert + 1) * matrix_bytes];
            let scale = &inputs.channel_scale[expert * n..(expert + 1) * n];
            row_times_matrix(a, weight, scale, c);
        });
    c
}

fn row_times_matrix(a: &[i8], weight: &[i8], scale: &[u64], c: &mut [f16]) {
    const WIDTH: usize = FRACTAL_COLS as usize;
    let block_bytes = packed_bytes(a.len() as u64, FRACTAL_COLS) as usize;
    let blocks = weight.chunks_exact(block_bytes);
    for ((block, c), scale) in blocks.zip(c.chunks_mut(WIDTH)).zip(scale.chunks(WIDTH)) {
        let mut acc = [0i32; WIDTH];
        for (&a, weights) in a.iter().zip(block.chunks_exact(WIDTH)) {
            for (acc, &weight) in acc.iter_mut().zip(weights) {
                *acc += i32::from(a) * i32::from(weight);
            }
        }
        for ((c, &acc), &scale) in c.iter_mut().zip(&acc).zip(scale) {
            *c = fixpipe_f16(acc, fixpipe_scale(scale));
        }
    }
}
