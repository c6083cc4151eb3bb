//! What the tests of the window share: a launch that moves rows and checks every byte of them.
#![allow(dead_code, reason = "each test file uses its part")]

use megamoe_window::protocol::Compare;
use megamoe_window::window::Rows;
use megamoe_window::{Signal, Window, WindowError, WindowLayout};
use moe_core::exchange::CountTable;
use moe_core::rng::Rng;
use moe_core::{FloatType, Problem, ProblemSpec};

pub(crate) const HIDDEN: u32 = 32;

pub(crate) fn problem(num_ranks: u32, max_tokens: u32, experts_per_rank: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![max_tokens; num_ranks as usize],
        hidden: HIDDEN,
        intermediate: 32,
        experts_per_rank,
        top_k: 1,
        max_output_size: num_ranks * max_tokens,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

pub(crate) fn layout(problem: &Problem) -> WindowLayout {
    WindowLayout::new(problem).unwrap()
}

/// Counts of a rank in a launch; often all zero. Every rank can compute those of all ranks.
fn counts(problem: &Problem, epoch: i32, rank: u32) -> Vec<u32> {
    let mut rng = Rng::for_path(&[7, epoch as u64, rank.into()]);
    let mut counts = vec![0; problem.num_experts() as usize];
    if rng.below(4) > 0 {
        for _ in 0..rng.below(u64::from(problem.num_tokens(rank)) + 1) {
            counts[rng.below(problem.num_experts().into()) as usize] += 1;
        }
    }
    counts
}

/// What row `row` of `source` holds in a launch.
fn row_bytes(epoch: i32, source: u32, row: u32, len: usize) -> Vec<u8> {
    let mut rng = Rng::for_path(&[epoch as u64, source.into(), row.into()]);
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

/// One launch of this rank: publish, pull, return, and check all that arrives. `pause` is called
/// between the steps.
pub(crate) fn launch(
    problem: &Problem,
    window: &mut Window,
    pause: &mut dyn FnMut(),
) -> Result<(), WindowError> {
    let (rank, num_ranks) = (window.rank(), window.num_ranks());
    let launch = window.begin()?;
    let epoch = launch.epoch();
    let packed_bytes = problem.packed_row_bytes() as usize;
    let mine = counts(problem, epoch, rank);
    for row in 0..mine.iter().sum() {
        launch.put(
            rank,
            Rows::Packed,
            row.into(),
            &row_bytes(epoch, rank, row, packed_bytes),
        )?;
    }
    pause();
    launch.publish_counts(&mine)?;
    for peer in 0..num_ranks {
        launch.notify_set(peer, Signal::RowsReady(rank), epoch)?;
    }
    pause();
    let mut all = Vec::new();
    for source in 0..num_ranks {
        let taken = launch.take_counts(source)?;
        assert_eq!(
            taken,
            counts(problem, epoch, source),
            "launch {epoch}, counts of {source}"
        );
        all.extend(taken);
    }
    let table = CountTable::new(problem, all);
    let first_expert = rank * problem.experts_per_rank();
    for (expert, runs) in (first_expert..).zip(table.runs(rank)) {
        for (source, run) in (0..).zip(runs) {
            if run.num_rows > 0 {
                launch.wait(source, Signal::RowsReady(source), Compare::AtLeast, epoch)?;
            }
            for row in run.source_row..run.source_row + run.num_rows {
                let mut bytes = vec![0; packed_bytes];
                launch.get(source, Rows::Packed, row.into(), &mut bytes)?;
                assert_eq!(bytes, row_bytes(epoch, source, row, packed_bytes));
                launch.put(
                    source,
                    Rows::Returned,
                    row.into(),
                    &bytes[..2 * HIDDEN as usize],
                )?;
            }
            launch.notify_set(source, Signal::Returned(expert), epoch)?;
        }
        pause();
    }
    for expert in (0..)
        .zip(&mine)
        .filter(|(_, count)| **count > 0)
        .map(|(e, _)| e)
    {
        let peer = window_rank(problem, expert);
        launch.wait(peer, Signal::Returned(expert), Compare::AtLeast, epoch)?;
    }
    for row in 0..mine.iter().sum() {
        let mut bytes = vec![0; 2 * HIDDEN as usize];
        launch.get(rank, Rows::Returned, row.into(), &mut bytes)?;
        assert_eq!(
            bytes,
            row_bytes(epoch, rank, row, packed_bytes)[..bytes.len()]
        );
    }
    Ok(())
}

fn window_rank(problem: &Problem, expert: u32) -> u32 {
    expert / problem.experts_per_rank()
}
