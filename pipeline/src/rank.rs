//! One launch of the layer on one rank, with the oracles as its stages and peers behind the window.
//!
//! It follows `docs/window-protocol.md` as the kernels do, so worlds of threads and of processes can be
//! told right before any kernel runs.

use std::time::{Duration, Instant};

use megamoe_combine::reference::combine;
use megamoe_dispatch::reference::{DispatchOutput, dispatch};
use megamoe_front_reorder::reference::{FrontOutput, front_reorder};
use megamoe_gmm::reference::{Gmm, gmm};
use megamoe_swiglu::reference::{ActivationOptions, swiglu};
use megamoe_unpermute::reference::{Routes, unpermute};
use megamoe_window::protocol::Compare;
use megamoe_window::window::Rows;
use megamoe_window::{Launch, Signal, Window, WindowError};
use moe_core::exchange::CountTable;
use moe_core::{Problem, RankInputs, StageKind};

/// What a rank's launch gives.
#[derive(Clone, Debug)]
pub struct RankOutput {
    /// `[num_tokens, hidden]` bits of the output type.
    pub out: Vec<u16>,
    /// Time in each stage, waiting for peers included.
    pub stage_times: Vec<(StageKind, Duration)>,
}

/// Runs one launch. All ranks of the window's world do so, with the same problem.
///
/// # Errors
/// [`WindowError`] when a peer fails or does not come.
pub fn launch(
    problem: &Problem,
    window: &mut Window,
    inputs: &RankInputs,
    activation: ActivationOptions,
) -> Result<RankOutput, WindowError> {
    let rank = window.rank();
    let layer = RankLayer {
        problem,
        rank,
        inputs,
        activation,
        launch: window.begin()?,
    };
    layer.run()
}

struct RankLayer<'a> {
    problem: &'a Problem,
    rank: u32,
    inputs: &'a RankInputs,
    activation: ActivationOptions,
    launch: Launch<'a>,
}

#[derive(Default)]
struct Stopwatch {
    times: Vec<(StageKind, Duration)>,
}

impl Stopwatch {
    fn time<T>(&mut self, stage: StageKind, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        self.times.push((stage, start.elapsed()));
        result
    }
}

impl RankLayer<'_> {
    fn run(&self) -> Result<RankOutput, WindowError> {
        let mut watch = Stopwatch::default();
        let (front, counts) = watch.time(StageKind::FrontReorder, || self.front())?;
        let received = watch.time(StageKind::Dispatch, || self.dispatch(&counts))?;
        let weights = &self.inputs.weights;
        let (hidden, gate_up) = (self.problem.hidden(), self.problem.gate_up());
        let intermediate = self.problem.intermediate();
        let expert_offsets = counts.expert_offsets(self.rank);
        let matmul = |k, n, a: &[i8], weight: &[i8], channel_scale: &[u64]| {
            gmm(&Gmm {
                k,
                n,
                expert_offsets: &expert_offsets,
                a,
                weight,
                channel_scale,
            })
        };
        let h = watch.time(StageKind::Gmm1, || {
            matmul(
                hidden,
                gate_up,
                &received.rows,
                &weights.weight1,
                &weights.scale1,
            )
        });
        let row = watch.time(StageKind::Swiglu, || {
            swiglu(intermediate, &h, &received.row_scale, self.activation)
        });
        let h2 = watch.time(StageKind::Gmm2, || {
            matmul(
                intermediate,
                hidden,
                &row.q,
                &weights.weight2,
                &weights.scale2,
            )
        });
        watch.time(StageKind::Combine, || {
            self.combine(&counts, &h2, &row.q_scale)
        })?;
        let out = watch.time(StageKind::Unpermute, || self.unpermute(&front, &counts))?;
        Ok(RankOutput {
            out,
            stage_times: watch.times,
        })
    }

    fn front(&self) -> Result<(FrontOutput, CountTable), WindowError> {
        let (rank, epoch) = (self.rank, self.launch.epoch());
        let front = front_reorder(self.problem, rank, &self.inputs.x, &self.inputs.topk_ids);
        self.launch.publish_counts(&front.counts)?;
        self.launch.put(rank, Rows::Packed, 0, &front.packed_rows)?;
        let mut counts = Vec::new();
        for peer in 0..self.problem.num_ranks() {
            self.launch
                .notify_set(peer, Signal::RowsReady(rank), epoch)?;
        }
        for source in 0..self.problem.num_ranks() {
            counts.extend(self.launch.take_counts(source)?);
        }
        Ok((front, CountTable::new(self.problem, counts)))
    }

    fn dispatch(&self, counts: &CountTable) -> Result<DispatchOutput, WindowError> {
        let row_bytes = self.problem.packed_row_bytes() as usize;
        let experts = self.problem.experts_per_rank() as usize;
        let first_expert = self.rank as usize * experts;
        // A source's rows for this rank lie in one piece.
        let mut pieces = Vec::new();
        for source in 0..self.problem.num_ranks() {
            let offsets = counts.source_offsets(source);
            let (first, end) = (offsets[first_expert], offsets[first_expert + experts]);
            let mut bytes = vec![0; (end - first) as usize * row_bytes];
            if !bytes.is_empty() {
                let signal = Signal::RowsReady(source);
                let epoch = self.launch.epoch();
                self.launch.wait(source, signal, Compare::AtLeast, epoch)?;
                self.launch
                    .get(source, Rows::Packed, first.into(), &mut bytes)?;
            }
            pieces.push((first, bytes));
        }
        let packed_row = |source: u32, row: u32| {
            let (first, bytes) = &pieces[source as usize];
            let start = (row - first) as usize * row_bytes;
            &bytes[start..start + row_bytes]
        };
        Ok(dispatch(self.problem, self.rank, counts, packed_row))
    }

    fn combine(
        &self,
        counts: &CountTable,
        h2: &[half::f16],
        row_scale: &[f32],
    ) -> Result<(), WindowError> {
        let mut result = Ok(());
        combine(
            self.problem,
            self.rank,
            counts,
            h2,
            row_scale,
            |source, row, bits| {
                if result.is_ok() {
                    let bytes = bytemuck::cast_slice(bits);
                    result = self.launch.put(source, Rows::Returned, row.into(), bytes);
                }
            },
        );
        result?;
        let first = self.rank * self.problem.experts_per_rank();
        for expert in first..first + self.problem.experts_per_rank() {
            for source in 0..self.problem.num_ranks() {
                let signal = Signal::Returned(expert);
                self.launch
                    .notify_set(source, signal, self.launch.epoch())?;
            }
        }
        Ok(())
    }

    fn unpermute(&self, front: &FrontOutput, counts: &CountTable) -> Result<Vec<u16>, WindowError> {
        for (expert, &count) in (0..).zip(&front.counts) {
            if count > 0 {
                let peer = expert / self.problem.experts_per_rank();
                let (signal, epoch) = (Signal::Returned(expert), self.launch.epoch());
                self.launch.wait(peer, signal, Compare::AtLeast, epoch)?;
            }
        }
        let hidden = self.problem.hidden() as usize;
        let mut returned = vec![0u16; self.problem.num_routes(self.rank) as usize * hidden];
        let bytes = bytemuck::cast_slice_mut(&mut returned);
        self.launch.get(self.rank, Rows::Returned, 0, bytes)?;
        let routes = Routes {
            topk_ids: &self.inputs.topk_ids,
            row_of_route: &front.row_of_route,
            probs: &self.inputs.probs,
            kept_end: &counts.kept_ends(self.rank),
        };
        Ok(unpermute(self.problem, &routes, |row| {
            &returned[row as usize * hidden..(row as usize + 1) * hidden]
        }))
    }
}
