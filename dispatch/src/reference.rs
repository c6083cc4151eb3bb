//! The oracle: one copy per row.

use moe_core::Problem;
use moe_core::exchange::CountTable;

/// The rows that a rank received.
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchOutput {
    /// `[num_rows, hidden]`.
    pub rows: Vec<i8>,
    /// `[num_rows]`.
    pub row_scale: Vec<f32>,
}

/// Dispatch of `rank`. `packed_row(source, row)` gives the bytes of a packed row of a source rank.
pub fn dispatch<'a>(
    problem: &Problem,
    rank: u32,
    counts: &CountTable,
    packed_row: impl Fn(u32, u32) -> &'a [u8],
) -> DispatchOutput {
    let hidden = problem.hidden() as usize;
    let mut output = DispatchOutput {
        rows: Vec::new(),
        row_scale: Vec::new(),
    };
    for runs in counts.runs(rank) {
        for (source, run) in (0..).zip(runs) {
            for source_row in run.source_row..run.source_row + run.num_rows {
                let packed = packed_row(source, source_row);
                let (payload, tail) = packed.split_at(hidden);
                output
                    .rows
                    .extend(payload.iter().map(|byte| byte.cast_signed()));
                let scale = [tail[0], tail[1], tail[2], tail[3]];
                output.row_scale.push(f32::from_le_bytes(scale));
            }
        }
    }
    output
}
