//! The oracle: one token after the other.

use half::{bf16, f16};
use moe_core::numerics::{Float16, round_output, weighted_add};
use moe_core::{FloatType, Problem};

/// What Unpermute reads besides the returned rows.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// `[num_tokens, top_k]` global experts.
    pub topk_ids: &'a [i32],
    /// `[num_tokens * top_k]` packed rows.
    pub row_of_route: &'a [i32],
    /// `[num_tokens, top_k]` weights.
    pub probs: &'a [f32],
    /// `[num_experts]` see [`moe_core::exchange::CountTable::kept_ends`].
    pub kept_end: &'a [u32],
}

/// Unpermute: `[num_tokens, hidden]` bits of the output type. `returned_row(row)` gives the bits of one
/// returned row and is asked only for rows that exist.
pub fn unpermute<'a>(
    problem: &Problem,
    routes: &Routes<'_>,
    returned_row: impl Fn(u32) -> &'a [u16],
) -> Vec<u16> {
    let top_k = problem.top_k() as usize;
    let num_tokens = routes.topk_ids.len() / top_k;
    let mut out = Vec::with_capacity(num_tokens * problem.hidden() as usize);
    for first_route in (0..num_tokens).map(|token| token * top_k) {
        let rows: Vec<(&[u16], f32)> = (first_route..first_route + top_k)
            .filter_map(|route| Some((returned_row(row_of(routes, route)?), routes.probs[route])))
            .collect();
        match problem.output_type() {
            FloatType::F16 => sum_rows::<f16>(problem, &rows, &mut out),
            FloatType::Bf16 => sum_rows::<bf16>(problem, &rows, &mut out),
        }
    }
    out
}

/// The returned row of a route, if it has one that was kept.
fn row_of(routes: &Routes<'_>, route: usize) -> Option<u32> {
    let expert = usize::try_from(routes.topk_ids[route]).ok()?;
    let row = u32::try_from(routes.row_of_route[route]).ok()?;
    (row < routes.kept_end[expert]).then_some(row)
}

fn sum_rows<T: Float16>(problem: &Problem, rows: &[(&[u16], f32)], out: &mut Vec<u16>) {
    let element = |column: usize| {
        let sum = rows.iter().fold(0.0, |sum, (row, prob)| {
            let returned: T = bytemuck::cast(row[column]);
            weighted_add(sum, returned, *prob)
        });
        round_output::<T>(sum).bits()
    };
    out.extend((0..problem.hidden() as usize).map(element));
}
