//! Faults that users of such systems reported in public, each named after its symptom. Where the
//! symptom needs windows or kernels, the test is in the crate that has them.

mod common;

use common::{layer, naive_layer, random_inputs, spec, to_bits};
use half::f16;
use moe_core::{FloatType, ProblemSpec, RankInputs};

fn check(spec: ProblemSpec, change: impl Fn(&mut [RankInputs])) -> Vec<Vec<u16>> {
    let problem = spec.build().unwrap();
    let mut inputs = random_inputs(&problem, 11);
    change(&mut inputs);
    let out = layer(&problem, &inputs);
    assert_eq!(out, naive_layer(&problem, &inputs));
    out
}

#[test]
fn a_rank_without_tokens_hangs_or_crashes() {
    let out = check(spec(&[0, 5, 0, 3], 2), |_| ());
    assert_eq!(
        out.iter().map(Vec::len).collect::<Vec<_>>(),
        [0, 160, 0, 96]
    );
    let none = check(spec(&[0, 0, 0], 2), |_| ());
    assert!(none.iter().all(Vec::is_empty));
}

#[test]
fn an_expert_without_rows_leaves_nan_behind() {
    let out = check(spec(&[4, 4], 1), |inputs| {
        for rank in inputs {
            rank.topk_ids.fill(2);
        }
    });
    let finite = |&bits: &u16| f16::from_bits(bits).to_f32().is_finite();
    assert!(out.iter().flatten().all(finite));
}

#[test]
fn an_id_of_the_shared_expert_indexes_out_of_bounds() {
    let problem = spec(&[2], 1).build().unwrap();
    let mut inputs = random_inputs(&problem, 1);
    for id in [2, -2] {
        inputs[0].topk_ids[1] = id;
        let error = inputs[0].check(&problem, 0).unwrap_err().to_string();
        assert!(
            error.contains("token 1") && error.contains(&id.to_string()),
            "{error}"
        );
    }
}

/// Both contributions count, also with as many copies as slots.
#[test]
fn the_same_expert_twice_in_a_token_counts_once() {
    let twice = check(spec(&[3], 2), |inputs| {
        inputs[0].topk_ids.fill(1);
        inputs[0].probs.fill(0.5);
    });
    let once = check(spec(&[3], 1), |inputs| {
        inputs[0].topk_ids.fill(1);
        inputs[0].probs.fill(1.0);
    });
    assert_eq!(twice, once, "a half and a half is the whole");
}

#[test]
fn sizes_overflow_in_32_bits() {
    let big = ProblemSpec {
        tokens_per_rank: vec![1 << 20; 8],
        hidden: 8192,
        intermediate: 2048,
        experts_per_rank: 16,
        top_k: 32,
        max_output_size: 1 << 28,
        input_type: FloatType::Bf16,
        output_type: FloatType::Bf16,
    };
    let problem = big.build().unwrap();
    let rows = u64::from(problem.max_output_size()) * problem.packed_row_bytes();
    assert_eq!(rows, (1u64 << 28) * (8192 + 32));
}

#[test]
fn an_all_zero_or_tiny_row_becomes_nan() {
    let smallest = f32::from_bits(1 << 16);
    for value in [0.0, -0.0, smallest, f32::MIN_POSITIVE, 6e-38] {
        let out = check(spec(&[2], 1), |inputs| {
            inputs[0].x[..32].fill(to_bits(FloatType::Bf16, value));
        });
        let finite = |&bits: &u16| f16::from_bits(bits).to_f32().is_finite();
        assert!(out[0].iter().all(finite), "{value:e}");
    }
}

#[test]
fn counts_beyond_a_hidden_maximum_are_wrong() {
    for experts_per_rank in [1, 16, 17, 32, 128] {
        check(
            ProblemSpec {
                experts_per_rank,
                ..spec(&[5, 4], 2)
            },
            |_| (),
        );
    }
    for (ranks, experts_per_rank, top_k) in [(8, 64, 9), (7, 128, 16), (5, 205, 22)] {
        let tokens = vec![1; ranks];
        check(
            ProblemSpec {
                experts_per_rank,
                ..spec(&tokens, top_k)
            },
            |_| (),
        );
    }
}

#[test]
fn a_hidden_size_of_a_real_model_is_refused() {
    for (hidden, intermediate) in [(2880, 2880), (2688, 1856), (2816, 704)] {
        check(
            ProblemSpec {
                hidden,
                intermediate,
                experts_per_rank: 1,
                ..spec(&[2], 1)
            },
            |_| (),
        );
    }
}

/// Capacity is one number of the world, so ranks can't disagree; too small is an error, not a clip.
#[test]
fn rows_above_the_capacity_disappear() {
    let small = ProblemSpec {
        max_output_size: 7,
        ..spec(&[4, 2], 2)
    };
    let error = small.build().unwrap_err().to_string();
    assert!(error.contains('7') && error.contains('8'), "{error}");
}
