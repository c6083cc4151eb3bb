//! Bytes that stages must move: what their time is compared with copying by.

use moe_core::{Problem, StageKind};

/// Bytes of a dispatched row's scale.
pub const SCALE_BYTES: u64 = 32;

/// Bytes that a stage which does not multiply must read and write, on all ranks, when experts get `rows` rows.
#[must_use]
pub fn stage_bytes(stage: StageKind, problem: &Problem, rows: u64) -> Option<u64> {
    let hidden = u64::from(problem.hidden());
    let width = u64::from(problem.intermediate());
    let tokens: u64 = problem
        .spec()
        .tokens_per_rank
        .iter()
        .copied()
        .map(u64::from)
        .sum();
    match stage {
        StageKind::FrontReorder => Some(2 * tokens * hidden + rows * (hidden + SCALE_BYTES)),
        StageKind::Dispatch => Some(2 * rows * (hidden + SCALE_BYTES)),
        StageKind::Swiglu => Some(5 * rows * width),
        StageKind::Combine => Some(4 * rows * hidden),
        StageKind::Unpermute => Some(2 * (rows + tokens) * hidden),
        StageKind::Gmm1 | StageKind::Gmm2 => None,
    }
}
