//! The oracle: one scaled row after the other.

use half::{bf16, f16};
use moe_core::exchange::CountTable;
use moe_core::numerics::{Float16, combine_scale};
use moe_core::{FloatType, Problem};

/// Combine of `rank`: calls `put(source, source_row, bits)` with each returned row, `[hidden]` bits of
/// the output type. `h2` is `[num_rows, hidden]`, `row_scale` is `[num_rows]`.
pub fn combine(
    problem: &Problem,
    rank: u32,
    counts: &CountTable,
    h2: &[f16],
    row_scale: &[f32],
    mut put: impl FnMut(u32, u32, &[u16]),
) {
    let hidden = problem.hidden() as usize;
    for runs in counts.runs(rank) {
        for (source, run) in (0..).zip(runs) {
            for i in 0..run.num_rows {
                let row = (run.row + i) as usize;
                let values = &h2[row * hidden..(row + 1) * hidden];
                let bits = scaled_bits(problem.output_type(), values, row_scale[row]);
                put(source, run.source_row + i, &bits);
            }
        }
    }
}

fn scaled_bits(output_type: FloatType, values: &[f16], scale: f32) -> Vec<u16> {
    let bits = |&value: &f16| match output_type {
        FloatType::F16 => combine_scale::<f16>(value, scale).bits(),
        FloatType::Bf16 => combine_scale::<bf16>(value, scale).bits(),
    };
    values.iter().map(bits).collect()
}
