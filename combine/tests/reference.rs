//! The oracle on rows that tell where they come from.

use half::{bf16, f16};
use megamoe_combine::reference::combine;
use moe_core::exchange::CountTable;
use moe_core::{FloatType, ProblemSpec};

fn returned(output_type: FloatType, max_output_size: u32) -> Vec<(u32, u32, u16)> {
    let problem = ProblemSpec {
        tokens_per_rank: vec![4, 4],
        hidden: 32,
        intermediate: 32,
        experts_per_rank: 2,
        top_k: 1,
        max_output_size,
        input_type: FloatType::F16,
        output_type,
    }
    .build()
    .unwrap();
    let counts = CountTable::new(&problem, vec![1, 2, 0, 1, 3, 0, 1, 0]);
    let num_rows = *counts.expert_offsets(0).last().unwrap() as usize;
    let h2: Vec<f16> = (0..num_rows * 32)
        .map(|i| f16::from_f32((i / 32) as f32))
        .collect();
    let row_scale = vec![0.5; num_rows];
    let mut puts = Vec::new();
    combine(
        &problem,
        0,
        &counts,
        &h2,
        &row_scale,
        |source, row, bits| {
            assert_eq!(bits.len(), 32);
            puts.push((source, row, bits[31]));
        },
    );
    puts
}

#[test]
fn each_row_answers_its_packed_row() {
    let half = |v: f32| f16::from_f32(v).to_bits();
    let want = [
        (0, 0, 0.0),
        (1, 0, 0.5),
        (1, 1, 1.0),
        (1, 2, 1.5),
        (0, 1, 2.0),
        (0, 2, 2.5),
    ];
    let want: Vec<_> = want.iter().map(|&(s, r, v)| (s, r, half(v))).collect();
    assert_eq!(returned(FloatType::F16, 8), want);
    assert_eq!(
        returned(FloatType::F16, 5),
        want[..5],
        "the dropped row is not returned"
    );
    assert_eq!(
        returned(FloatType::Bf16, 8)[5].2,
        bf16::from_f32(2.5).to_bits()
    );
}
