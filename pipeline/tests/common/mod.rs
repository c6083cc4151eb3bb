//! What the tests of the layer share: small worlds, and a naive layer that knows no permutation.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod rig;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use half::{bf16, f16};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::reference;
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::data::DataKind;
use moe_core::numerics;
use moe_core::routing::RoutingKind;
use moe_core::weights::packed_index;
use moe_core::{FloatType, Problem, ProblemSpec, RankInputs};

pub(crate) const SHARED_CASES: [&str; 5] = [
    "balanced-fullload",
    "few-experts",
    "random-multicore",
    "random-onecore",
    "zipf-fullload",
];

/// Folder of a case with the outputs of the published kernel.
pub(crate) fn case_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cases")
        .join(name)
}

/// Runs the command in an empty working directory.
pub(crate) fn megamoe(arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("a temporary folder");
    Command::new(env!("CARGO_BIN_EXE_megamoe"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .current_dir(dir.path())
        .output()
        .expect("megamoe starts")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A small world: 32 columns everywhere, 2 experts on each rank.
pub(crate) fn spec(tokens_per_rank: &[u32], top_k: u32) -> ProblemSpec {
    let routes: u32 = tokens_per_rank.iter().map(|tokens| tokens * top_k).sum();
    ProblemSpec {
        tokens_per_rank: tokens_per_rank.to_vec(),
        hidden: 32,
        intermediate: 32,
        experts_per_rank: 2,
        top_k,
        max_output_size: routes.max(1),
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
}

/// Unit-scale random data with uniform routing.
pub(crate) fn random_inputs(problem: &Problem, seed: u64) -> Vec<RankInputs> {
    let spec = DataSpec {
        kind: DataKind::Random,
        routing: RoutingSource::Made(RoutingKind::Uniform),
        seed,
    };
    generate(problem, &spec, &|| ()).expect("uniform routing fits")
}

/// The oracle's outputs.
pub(crate) fn layer(problem: &Problem, inputs: &[RankInputs]) -> Vec<Vec<u16>> {
    for (rank, rank_inputs) in (0..).zip(inputs) {
        rank_inputs.check(problem, rank).expect("legal inputs");
    }
    reference::run(problem, inputs, ActivationOptions::default()).out
}

/// The layer token by token, route by route: no sort, no exchange, no grouping.
pub(crate) fn naive_layer(problem: &Problem, inputs: &[RankInputs]) -> Vec<Vec<u16>> {
    inputs
        .iter()
        .map(|rank_inputs| {
            let tokens = rank_inputs.x.chunks(problem.hidden() as usize);
            let routes = rank_inputs
                .topk_ids
                .chunks(problem.top_k() as usize)
                .zip(rank_inputs.probs.chunks(problem.top_k() as usize));
            tokens
                .zip(routes)
                .flat_map(|(x, (ids, probs))| naive_token(problem, inputs, x, ids, probs))
                .collect()
        })
        .collect()
}

fn naive_token(
    problem: &Problem,
    inputs: &[RankInputs],
    x: &[u16],
    ids: &[i32],
    probs: &[f32],
) -> Vec<u16> {
    let mut sum = vec![0.0f32; problem.hidden() as usize];
    for (&id, &prob) in ids.iter().zip(probs) {
        if id >= 0 {
            let row = naive_expert(problem, inputs, x, id as u32);
            for (sum, value) in sum.iter_mut().zip(row) {
                *sum += value * prob;
            }
        }
    }
    sum.into_iter()
        .map(|value| to_bits(problem.output_type(), value))
        .collect()
}

fn naive_expert(problem: &Problem, inputs: &[RankInputs], x: &[u16], id: u32) -> Vec<f32> {
    let per_rank = problem.experts_per_rank();
    let weights = Arc::clone(&inputs[(id / per_rank) as usize].weights);
    let expert = u64::from(id % per_rank);
    let (hidden, intermediate) = (problem.hidden() as usize, problem.intermediate() as usize);
    let x: Vec<f32> = x
        .iter()
        .map(|&b| from_bits(problem.input_type(), b))
        .collect();
    let token = numerics::quant_front(&x);
    let h = naive_matmul(
        &token.q,
        &weights.weight1,
        &weights.scale1,
        2 * intermediate,
        expert,
    );
    let v: Vec<f32> = h.iter().map(|h| h.to_f32() * token.scale).collect();
    let y: Vec<f32> = (0..intermediate)
        .map(|i| numerics::silu(v[i]) * v[intermediate + i])
        .collect();
    let row = numerics::quant_swiglu(&y);
    let h = naive_matmul(&row.q, &weights.weight2, &weights.scale2, hidden, expert);
    h.iter()
        .map(|h| {
            from_bits(
                problem.output_type(),
                to_bits(problem.output_type(), h.to_f32() * row.scale),
            )
        })
        .collect()
}

fn naive_matmul(a: &[i8], packed: &[i8], scales: &[u64], n: usize, expert: u64) -> Vec<f16> {
    let k = a.len();
    let bytes = (k.next_multiple_of(16) * n.next_multiple_of(32)) as u64;
    (0..n)
        .map(|column| {
            let dot: i32 = (0..k)
                .map(|i| {
                    let at = expert * bytes + packed_index(k as u64, i as u64, column as u64);
                    i32::from(a[i]) * i32::from(packed[at as usize])
                })
                .sum();
            let scale = scales[expert as usize * n + column] as u32 & 0xffff_e000;
            let value = dot as f32 * f32::from_bits(scale);
            f16::from_f32(value.clamp(-65504.0, 65504.0))
        })
        .collect()
}

pub(crate) fn from_bits(float: FloatType, bits: u16) -> f32 {
    match float {
        FloatType::Bf16 => bf16::from_bits(bits).to_f32(),
        FloatType::F16 => f16::from_bits(bits).to_f32(),
    }
}

pub(crate) fn to_bits(float: FloatType, value: f32) -> u16 {
    match float {
        FloatType::Bf16 => bf16::from_f32(value).to_bits(),
        FloatType::F16 => f16::from_f32(value).to_bits(),
    }
}
