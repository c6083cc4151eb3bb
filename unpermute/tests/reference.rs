//! The oracle on hand-made routes.

use half::{bf16, f16};
use megamoe_unpermute::reference::{Routes, unpermute};
use moe_core::{FloatType, Problem, ProblemSpec};

fn problem(tokens: u32, top_k: u32, output_type: FloatType) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![tokens],
        hidden: 32,
        intermediate: 32,
        experts_per_rank: 4,
        top_k,
        max_output_size: 8,
        input_type: FloatType::F16,
        output_type,
    }
    .build()
    .unwrap()
}

#[test]
fn absent_and_dropped_routes_read_nothing() {
    let rows: Vec<Vec<u16>> = [1.0f32, 2.0]
        .iter()
        .map(|&v| vec![f16::from_f32(v).to_bits(); 32])
        .collect();
    let routes = Routes {
        topk_ids: &[0, 1, -1, 0, -1, -1, 1, 1],
        row_of_route: &[0, 2, -1, 1, -1, -1, 3, 4],
        probs: &[0.25, 0.75, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0],
        kept_end: &[2, 2],
    };
    let out = unpermute(&problem(4, 2, FloatType::F16), &routes, |row| {
        rows.get(row as usize)
            .expect("a row that nobody wrote was read")
    });
    let tokens: Vec<f32> = out
        .chunks(32)
        .map(|t| f16::from_bits(t[7]).to_f32())
        .collect();
    assert_eq!(tokens, [0.25, 1.0, 0.0, 0.0]);
}

/// ISEEKYAN/Megatron-LM#175, llama.cpp#26294, vllm#48740: the last of two equal experts wins.
#[test]
fn a_token_that_names_one_expert_twice_gets_both_contributions() {
    let rows = [
        vec![bf16::from_f32(3.0).to_bits(); 32],
        vec![bf16::from_f32(5.0).to_bits(); 32],
    ];
    let routes = Routes {
        topk_ids: &[1, 1],
        row_of_route: &[0, 1],
        probs: &[2.0, 4.0],
        kept_end: &[0, 2],
    };
    let out = unpermute(&problem(1, 2, FloatType::Bf16), &routes, |row| {
        &rows[row as usize]
    });
    assert!(
        out.iter()
            .all(|&bits| bf16::from_bits(bits).to_f32() == 26.0)
    );
}

#[test]
fn slots_are_added_in_order() {
    // (1e8 - 1e8) + 1 keeps the 1; (1e8 + 1) - 1e8 loses it in fp32. Slot order decides.
    let row = vec![f16::ONE.to_bits(); 32];
    let sum = |probs: &[f32]| {
        let routes = Routes {
            topk_ids: &[0, 0, 0],
            row_of_route: &[0, 1, 2],
            probs,
            kept_end: &[3, 3],
        };
        let out = unpermute(&problem(1, 3, FloatType::F16), &routes, |_| &row);
        f16::from_bits(out[0]).to_f32()
    };
    assert_eq!(sum(&[1e8, -1e8, 1.0]), 1.0);
    assert_eq!(sum(&[1e8, 1.0, -1e8]), 0.0);
}
