//! The oracle on rows that tell where they come from.

use megamoe_dispatch::reference::dispatch;
use moe_core::exchange::CountTable;
use moe_core::{FloatType, Problem, ProblemSpec};

fn problem(max_output_size: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![4, 4],
        hidden: 32,
        intermediate: 32,
        experts_per_rank: 2,
        top_k: 1,
        max_output_size,
        input_type: FloatType::F16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

/// Payload: the source's number, the row's number; scale: both.
fn packed(source: u8, row: u8) -> Vec<u8> {
    let mut bytes = vec![source; 32];
    bytes[1] = row;
    bytes.extend((f32::from(source) * 100.0 + f32::from(row)).to_le_bytes());
    bytes.resize(64, 0xa5);
    bytes
}

fn received(rank: u32, max_output_size: u32) -> (Vec<f32>, Vec<i8>) {
    let problem = problem(max_output_size);
    let counts = CountTable::new(&problem, vec![1, 2, 0, 1, 3, 0, 1, 0]);
    let rows: Vec<Vec<Vec<u8>>> = (0..2)
        .map(|source| (0..4).map(|row| packed(source, row)).collect())
        .collect();
    let out = dispatch(&problem, rank, &counts, |source, row| {
        &rows[source as usize][row as usize]
    });
    assert_eq!(out.rows.len(), out.row_scale.len() * 32);
    (
        out.row_scale,
        out.rows.chunks(32).map(|row| row[1]).collect(),
    )
}

#[test]
fn rows_come_by_expert_then_source() {
    let (scales, rows) = received(0, 8);
    assert_eq!(scales, [0.0, 100.0, 101.0, 102.0, 1.0, 2.0]);
    assert_eq!(rows, [0, 0, 1, 2, 1, 2]);
    assert_eq!(received(1, 8).0, [103.0, 3.0]);
}

#[test]
fn rows_beyond_the_capacity_are_not_received() {
    assert_eq!(received(0, 5).0, [0.0, 100.0, 101.0, 102.0, 1.0]);
}
