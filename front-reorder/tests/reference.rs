//! The oracle against the definition, over random routings.

use half::f16;
use megamoe_front_reorder::reference::front_reorder;
use moe_core::{FloatType, Problem, ProblemSpec};
use proptest::prelude::*;

fn problem(tokens: u32, experts: u32, top_k: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![tokens],
        hidden: 32,
        intermediate: 32,
        experts_per_rank: experts,
        top_k,
        max_output_size: 4096,
        input_type: FloatType::F16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

fn tokens(count: u32) -> Vec<u16> {
    (0..count * 32)
        .map(|i| f16::from_f32((i % 97) as f32 - 40.0).to_bits())
        .collect()
}

proptest! {
    #[test]
    fn rows_are_a_stable_sort_of_routes(
        ids in proptest::collection::vec(-1i32..6, 0..60),
        top_k in 1u32..4,
    ) {
        let num_tokens = ids.len() as u32 / top_k;
        let ids = &ids[..(num_tokens * top_k) as usize];
        let problem = problem(num_tokens, 6, top_k);
        let out = front_reorder(&problem, 0, &tokens(num_tokens), ids);
        let mut sorted: Vec<usize> = (0..ids.len()).filter(|&r| ids[r] >= 0).collect();
        sorted.sort_by_key(|&r| ids[r]);
        for (row, &route) in sorted.iter().enumerate() {
            prop_assert_eq!(out.row_of_route[route], row as i32);
        }
        for (route, &id) in ids.iter().enumerate() {
            prop_assert_eq!(out.row_of_route[route] == -1, id == -1);
        }
        for expert in 0..6 {
            let count = ids.iter().filter(|&&id| id == expert).count();
            prop_assert_eq!(out.counts[expert as usize] as usize, count);
        }
    }
}

#[test]
fn every_row_of_a_token_is_the_same_packed_row() {
    let problem = problem(2, 4, 3);
    let out = front_reorder(&problem, 0, &tokens(2), &[3, 1, 3, 0, -1, 2]);
    assert_eq!(out.row_of_route, [3, 1, 4, 0, -1, 2]);
    let row = |r: usize| &out.packed_rows[r * 64..(r + 1) * 64];
    assert_eq!(row(3), row(1));
    assert_eq!(row(3), row(4));
    assert_eq!(row(0), row(2));
    assert_ne!(row(0), row(1));
    let scale = f32::from_le_bytes(row(1)[32..36].try_into().unwrap());
    assert_eq!(scale, 40.0 / 127.0);
    assert_eq!(row(1)[0].cast_signed(), -127);
    assert_eq!(row(1)[36..], [0; 28]);
    assert_eq!(row(5), [0; 64], "the row that no route has");
}
