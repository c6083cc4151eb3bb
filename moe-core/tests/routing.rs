//! Routings: generators keep their promises, checks name the place, measures use the right axis.

use moe_core::routing::{Load, RoutingError, RoutingKind, Spread, check_ids, check_probs};
use moe_core::{FloatType, Problem, ProblemSpec};
use proptest::prelude::*;

fn problem(tokens: &[u32], experts_per_rank: u32, top_k: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: tokens.to_vec(),
        hidden: 32,
        intermediate: 32,
        experts_per_rank,
        top_k,
        max_output_size: 100_000,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

#[test]
fn balanced_goes_round_robin_over_the_world() {
    let ids = RoutingKind::Balanced
        .generate(&problem(&[2, 0, 3], 2, 2), 0)
        .unwrap();
    assert_eq!(ids, [vec![0, 1, 2, 3], vec![], vec![4, 5, 0, 1, 2, 3]]);
}

#[test]
fn texts_round_trip_and_bad_ones_say_why() {
    for text in ["balanced", "uniform", "zipf:1.2", "few:3"] {
        assert_eq!(text.parse::<RoutingKind>().unwrap().to_string(), text);
    }
    for text in [
        "", "zipf", "zipf:", "zipf:-1", "zipf:nan", "few:0", "few:x", "round",
    ] {
        let error = text.parse::<RoutingKind>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("routing {text:?}: ")), "{error}");
    }
}

#[test]
fn too_few_experts_for_top_k_is_refused() {
    let error = RoutingKind::Few(1)
        .generate(&problem(&[4], 8, 2), 0)
        .unwrap_err();
    assert!(error.to_string().contains("top_k = 2"), "{error}");
}

#[test]
fn zipf_is_skewed_and_its_placement_depends_on_the_seed() {
    let problem = problem(&[4096], 64, 4);
    let load = |seed| {
        let ids = RoutingKind::Zipf(1.0).generate(&problem, seed).unwrap();
        Load::of(&problem, ids.iter().map(Vec::as_slice))
    };
    let (first, second) = (load(1), load(2));
    assert!(first.experts().imbalance > 4.0, "{:?}", first.experts());
    assert_ne!(first.rows_per_expert, second.rows_per_expert);
    let uniform = RoutingKind::Uniform.generate(&problem, 1).unwrap();
    let uniform = Load::of(&problem, uniform.iter().map(Vec::as_slice));
    assert!(uniform.experts().imbalance < 1.5, "{:?}", uniform.experts());
}

/// vllm#39178, vllm#51784: balance computed on the wrong axis.
#[test]
fn balance_is_measured_over_experts_and_over_ranks() {
    let problem = problem(&[4, 2], 2, 1);
    let ids: [&[i32]; 2] = [&[0, 0, 1, -1], &[3, 0]];
    let load = Load::of(&problem, ids);
    assert_eq!(load.rows_per_expert, [3, 1, 0, 1]);
    assert_eq!(load.rows_per_rank, [4, 1]);
    assert_eq!(
        load.experts(),
        Spread {
            min: 0,
            mean: 1.25,
            max: 3,
            imbalance: 2.4
        }
    );
    assert_eq!(
        load.ranks(),
        Spread {
            min: 1,
            mean: 2.5,
            max: 4,
            imbalance: 1.6
        }
    );
    assert_eq!(Spread::of(&[0, 0]).imbalance, 1.0);
}

/// sgl-kernel-npu#139, vllm-ascend#13241, sglang#22525: an id past the end indexes out of bounds.
#[test]
fn an_id_that_names_no_expert_is_an_error_with_its_place() {
    let problem = problem(&[3, 3], 4, 2);
    assert_eq!(check_ids(&problem, 1, &[0, -1, 7, 1, -1, -1]), Ok(()));
    for id in [8, -2, i32::MIN, i32::MAX] {
        let error = check_ids(&problem, 1, &[0, 1, 2, id, 3, 4]).unwrap_err();
        assert_eq!(
            error,
            RoutingError::ExpertId {
                rank: 1,
                token: 1,
                slot: 1,
                id,
                num_experts: 8
            }
        );
    }
    let error = check_ids(&problem, 0, &[0; 5]).unwrap_err();
    assert!(error.to_string().contains("5 values"), "{error}");
}

#[test]
fn a_weight_that_is_not_finite_is_an_error_with_its_place() {
    let problem = problem(&[2], 4, 2);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = check_probs(&problem, 0, &[0.5, 0.5, bad, 1.0])
            .unwrap_err()
            .to_string();
        assert!(error.contains("rank 0, token 1, slot 0"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_token_names_an_expert_twice(
        tokens in proptest::collection::vec(0u32..20, 1..4),
        experts_per_rank in 2u32..9,
        top_k in 1u32..3,
        seed: u64,
    ) {
        let problem = problem(&tokens, experts_per_rank, top_k);
        for kind in [RoutingKind::Balanced, RoutingKind::Uniform, RoutingKind::Zipf(1.5), RoutingKind::Few(2)] {
            let ids = kind.generate(&problem, seed).unwrap();
            prop_assert_eq!(&ids, &kind.generate(&problem, seed).unwrap());
            for (rank, ids) in (0u32..).zip(&ids) {
                check_ids(&problem, rank, ids).unwrap();
                for token in ids.chunks(top_k as usize) {
                    let distinct: std::collections::HashSet<_> = token.iter().collect();
                    prop_assert_eq!(distinct.len(), token.len());
                    prop_assert!(!token.contains(&-1));
                    if let RoutingKind::Few(n) = kind {
                        prop_assert!(token.iter().all(|&id| id < n as i32));
                    }
                }
            }
        }
    }
}
