//! Edges of the layer, each against a naive layer that goes token by token.

mod common;

use common::{layer, naive_layer, random_inputs, spec, to_bits};
use half::f16;
use megamoe_pipeline::sample;
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::exchange::CountTable;
use moe_core::{FloatType, Problem, ProblemSpec, RankInputs};
use proptest::prelude::*;

fn build(spec: ProblemSpec) -> (Problem, Vec<RankInputs>) {
    let problem = spec.build().unwrap();
    let inputs = random_inputs(&problem, 3);
    (problem, inputs)
}

#[track_caller]
fn assert_equals_naive(problem: &Problem, inputs: &[RankInputs]) {
    assert_eq!(layer(problem, inputs), naive_layer(problem, inputs));
}

#[test]
fn one_rank() {
    let (problem, inputs) = build(spec(&[9], 2));
    assert_equals_naive(&problem, &inputs);
}

#[test]
fn one_token() {
    let (problem, inputs) = build(spec(&[1], 1));
    assert_equals_naive(&problem, &inputs);
}

#[test]
fn top_k_one() {
    let (problem, inputs) = build(spec(&[7, 6], 1));
    assert_equals_naive(&problem, &inputs);
}

#[test]
fn all_tokens_to_one_expert_and_none_to_the_others() {
    let (problem, mut inputs) = build(spec(&[6, 5, 4], 1));
    for rank in &mut inputs {
        rank.topk_ids.fill(3);
    }
    assert_equals_naive(&problem, &inputs);
}

#[test]
fn routes_and_whole_tokens_without_an_expert() {
    let (problem, mut inputs) = build(spec(&[4, 4], 2));
    inputs[0].topk_ids[1] = -1;
    inputs[1].topk_ids[2..6].fill(-1);
    assert_equals_naive(&problem, &inputs);
    let zero = to_bits(FloatType::F16, 0.0);
    assert!(
        layer(&problem, &inputs)[1][32..96]
            .iter()
            .all(|&bits| bits == zero)
    );
}

#[test]
fn a_zero_token_gives_zero() {
    let (problem, mut inputs) = build(spec(&[3], 2));
    inputs[0].x[32..64].fill(0);
    let out = layer(&problem, &inputs);
    assert!(out[0][32..64].iter().all(|&bits| bits & 0x7fff == 0));
    assert_eq!(out, naive_layer(&problem, &inputs));
}

/// A value that is not finite stays in its own token's output, wherever that token's rows go.
#[test]
fn a_nan_or_an_infinity_touches_its_own_token_only() {
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let (problem, mut inputs) = build(spec(&[4, 4], 2));
        let good = layer(&problem, &inputs);
        inputs[1].x[2 * 32 + 5] = to_bits(FloatType::Bf16, bad);
        let out = layer(&problem, &inputs);
        assert_eq!(out[0], good[0]);
        let touched = 2 * 32..3 * 32;
        assert_eq!(out[1][..touched.start], good[1][..touched.start]);
        assert_eq!(out[1][touched.end..], good[1][touched.end..]);
        let finite = |&bits: &u16| f16::from_bits(bits).to_f32().is_finite();
        assert!(
            !out[1][touched].iter().any(finite),
            "{bad} must show in the token itself"
        );
    }
}

/// Clipped rows contribute nothing, and are counted.
#[test]
fn dropped_routes_equal_routes_that_never_were() {
    let mut small = spec(&[6, 6], 2);
    small.max_output_size = 12;
    let (problem, mut inputs) = build(small);
    for rank in &mut inputs {
        for ids in rank.topk_ids.chunks_mut(2) {
            ids.copy_from_slice(&[0, 1]);
        }
    }
    let counts = CountTable::from_ids(&problem, inputs.iter().map(|i| i.topk_ids.as_slice()));
    assert_eq!(counts.total_dropped(), 12);
    let out = layer(&problem, &inputs);
    let mut removed = inputs.clone();
    for (rank, rank_inputs) in (0..).zip(&mut removed) {
        rank_inputs.topk_ids = sample::kept_ids(&counts, rank, &rank_inputs.topk_ids);
    }
    assert_ne!(removed[0].topk_ids, inputs[0].topk_ids);
    assert_eq!(out, naive_layer(&problem, &removed));
}

#[test]
fn a_second_launch_gives_the_same() {
    let (problem, inputs) = build(spec(&[5, 0, 3], 2));
    let first = layer(&problem, &inputs);
    assert_eq!(layer(&problem, &inputs), first);
}

fn any_spec() -> impl Strategy<Value = ProblemSpec> {
    let tokens = prop::collection::vec(0u32..9, 1..5);
    let float = prop_oneof![Just(FloatType::Bf16), Just(FloatType::F16)];
    (
        tokens,
        1u32..4,
        1u32..4,
        1u32..3,
        1u32..5,
        float.clone(),
        float,
    )
        .prop_map(
            |(tokens, top_k, wide, deep, experts, input_type, output_type)| {
                let ranks = tokens.len() as u32;
                ProblemSpec {
                    hidden: 32 * wide,
                    intermediate: 32 * deep,
                    experts_per_rank: experts,
                    input_type,
                    output_type,
                    ..spec(&tokens, top_k.min(ranks * experts))
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_small_layer_equals_the_naive_one(spec in any_spec(), seed in any::<u64>()) {
        let problem = spec.build().unwrap();
        let inputs = random_inputs(&problem, seed);
        prop_assert_eq!(layer(&problem, &inputs), naive_layer(&problem, &inputs));
    }

    /// Verifying some tokens is verifying them in the whole, under clipping too.
    #[test]
    fn a_sample_equals_the_same_tokens_of_the_whole(spec in any_spec(), seed in any::<u64>()) {
        let largest = spec.tokens_per_rank.iter().max().unwrap() * spec.top_k;
        let problem = ProblemSpec { max_output_size: largest.max(1), ..spec }.build().unwrap();
        let inputs = random_inputs(&problem, seed);
        let chosen = sample::choose(&problem, 2, seed);
        let some = sample::run(&problem, &inputs, &chosen, ActivationOptions::default()).unwrap();
        let whole = sample::take(&problem, &layer(&problem, &inputs), &chosen);
        prop_assert_eq!(some, whole);
    }
}
