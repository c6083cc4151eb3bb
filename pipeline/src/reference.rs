//! The layer's oracle: the stages' oracles one after the other, over all ranks of one process.

use std::time::{Duration, Instant};

use megamoe_combine::reference::combine;
use megamoe_dispatch::reference::dispatch;
use megamoe_front_reorder::reference::{FrontOutput, front_reorder};
use megamoe_gmm::reference::{Gmm, gmm};
use megamoe_swiglu::reference::{ActivationOptions, swiglu};
use megamoe_unpermute::reference::{Routes, unpermute};
use moe_core::exchange::CountTable;
use moe_core::{Problem, RankInputs, StageKind};

/// What a run of the layer gives.
#[derive(Clone, Debug)]
pub struct LayerOutput {
    /// `[num_tokens, hidden]` bits of the output type, for each rank.
    pub out: Vec<Vec<u16>>,
    /// Rows of every source rank for every expert.
    pub counts: CountTable,
    /// Time in each stage, all ranks together, in the order of the data flow.
    pub stage_times: Vec<(StageKind, Duration)>,
}

/// Time spent in each stage.
#[derive(Debug, Default)]
struct StageClock {
    times: Vec<(StageKind, Duration)>,
}

impl StageClock {
    fn time<T>(&mut self, stage: StageKind, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let elapsed = start.elapsed();
        match self.times.iter_mut().find(|(kind, _)| *kind == stage) {
            Some((_, time)) => *time += elapsed,
            None => self.times.push((stage, elapsed)),
        }
        result
    }
}

/// Runs the layer. `inputs` holds one entry per rank and is checked ([`RankInputs::check`]). Routes
/// that the capacity drops contribute nothing; `counts` of the result tells how many.
#[must_use]
pub fn run(problem: &Problem, inputs: &[RankInputs], activation: ActivationOptions) -> LayerOutput {
    let mut clock = StageClock::default();
    let ids = || inputs.iter().map(|rank| rank.topk_ids.as_slice());
    let counts = CountTable::from_ids(problem, ids());
    let fronts: Vec<FrontOutput> = clock.time(StageKind::FrontReorder, || {
        (0..)
            .zip(inputs)
            .map(|(rank, i)| front_reorder(problem, rank, &i.x, &i.topk_ids))
            .collect()
    });
    let mut returned: Vec<Vec<u16>> = (0..problem.num_ranks())
        .map(|rank| vec![0; problem.num_routes(rank) as usize * problem.hidden() as usize])
        .collect();
    for (rank, rank_inputs) in (0..).zip(inputs) {
        let ffn = ExpertFfn {
            problem,
            counts: &counts,
            rank,
            inputs: rank_inputs,
            activation,
        };
        ffn.run(&fronts, &mut returned, &mut clock);
    }
    let out = clock.time(StageKind::Unpermute, || {
        (0..)
            .zip(inputs)
            .map(|(rank, i)| {
                let row_of_route = &fronts[rank as usize].row_of_route;
                weighted_sum(
                    problem,
                    &counts,
                    rank,
                    i,
                    row_of_route,
                    &returned[rank as usize],
                )
            })
            .collect()
    });
    LayerOutput {
        out,
        counts,
        stage_times: clock.times,
    }
}

/// The stages between the exchange of counts and the return of rows, on one rank.
struct ExpertFfn<'a> {
    problem: &'a Problem,
    counts: &'a CountTable,
    rank: u32,
    inputs: &'a RankInputs,
    activation: ActivationOptions,
}

impl ExpertFfn<'_> {
    fn run(&self, fronts: &[FrontOutput], returned: &mut [Vec<u16>], clock: &mut StageClock) {
        let problem = self.problem;
        let weights = &self.inputs.weights;
        let row_bytes = problem.packed_row_bytes() as usize;
        let packed_row = |source: u32, row: u32| {
            let start = row as usize * row_bytes;
            &fronts[source as usize].packed_rows[start..start + row_bytes]
        };
        let received = clock.time(StageKind::Dispatch, || {
            dispatch(problem, self.rank, self.counts, packed_row)
        });
        let expert_offsets = self.counts.expert_offsets(self.rank);
        let h = clock.time(StageKind::Gmm1, || {
            gmm(&Gmm {
                k: problem.hidden(),
                n: problem.gate_up(),
                expert_offsets: &expert_offsets,
                a: &received.rows,
                weight: &weights.weight1,
                channel_scale: &weights.scale1,
            })
        });
        let activated = clock.time(StageKind::Swiglu, || {
            swiglu(
                problem.intermediate(),
                &h,
                &received.row_scale,
                self.activation,
            )
        });
        let h2 = clock.time(StageKind::Gmm2, || {
            gmm(&Gmm {
                k: problem.intermediate(),
                n: problem.hidden(),
                expert_offsets: &expert_offsets,
                a: &activated.q,
                weight: &weights.weight2,
                channel_scale: &weights.scale2,
            })
        });
        clock.time(StageKind::Combine, || {
            let hidden = problem.hidden() as usize;
            combine(
                problem,
                self.rank,
                self.counts,
                &h2,
                &activated.q_scale,
                |source, row, bits| {
                    let start = row as usize * hidden;
                    returned[source as usize][start..start + hidden].copy_from_slice(bits);
                },
            );
        });
    }
}

fn weighted_sum(
    problem: &Problem,
    counts: &CountTable,
    rank: u32,
    inputs: &RankInputs,
    row_of_route: &[i32],
    returned: &[u16],
) -> Vec<u16> {
    let routes = Routes {
        topk_ids: &inputs.topk_ids,
        row_of_route,
        probs: &inputs.probs,
        kept_end: &counts.kept_ends(rank),
    };
    let hidden = problem.hidden() as usize;
    unpermute(problem, &routes, |row| {
        &returned[row as usize * hidden..(row as usize + 1) * hidden]
    })
}
