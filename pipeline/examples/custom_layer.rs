//! A layer of one's own on one rank, without windows: gather, matmul, activation, matmul, scatter.
//!
//! `cargo run --release -p megamoe-pipeline --example custom_layer`

use std::error::Error;

use half::f16;
use megamoe_device::{
    Device, ExecutorOptions, PlannedStage, VirtualDevice, download, upload, view,
};
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::reference;
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::data::DataKind;
use moe_core::numerics::{combine_scale, quant_front};
use moe_core::routing::RoutingKind;
use moe_core::slot::{GmmIo, SwigluIo};
use moe_core::{FloatType, Problem, ProblemSpec, RankInputs, Soc};

fn main() -> Result<(), Box<dyn Error>> {
    let problem = ProblemSpec {
        tokens_per_rank: vec![40],
        hidden: 256,
        intermediate: 192,
        experts_per_rank: 6,
        top_k: 1,
        max_output_size: 40,
        input_type: FloatType::F16,
        output_type: FloatType::F16,
    }
    .build()?;
    let data = DataSpec {
        kind: DataKind::Random,
        routing: RoutingSource::Made(RoutingKind::Zipf(1.0)),
        seed: 1,
    };
    let mut inputs = generate(&problem, &data, &|| ())?;
    inputs[0].probs.fill(1.0);

    let out = run_layer(&problem, &inputs[0])?;

    let want = reference::run(&problem, &inputs, ActivationOptions::default()).out;
    assert_eq!(out, want[0], "the layer equals the oracle bit for bit");
    println!(
        "{} tokens through {} experts: right",
        problem.num_tokens(0),
        problem.num_experts()
    );
    Ok(())
}

/// Gather and scatter on the host, the rest as kernels.
fn run_layer(problem: &Problem, inputs: &RankInputs) -> Result<Vec<u16>, Box<dyn Error>> {
    let hidden = problem.hidden() as usize;
    // Gather: tokens in the order of their experts, quantised.
    let mut order: Vec<usize> = (0..inputs.topk_ids.len()).collect();
    order.sort_by_key(|&token| inputs.topk_ids[token]);
    let offsets: Vec<i32> = (0..=problem.num_experts() as i32)
        .map(|expert| inputs.topk_ids.iter().filter(|&&id| id < expert).count() as i32)
        .collect();
    let (mut rows, mut row_scale) = (Vec::new(), Vec::new());
    for &token in &order {
        let bits = &inputs.x[token * hidden..(token + 1) * hidden];
        let values: Vec<f32> = bits.iter().map(|&b| f16::from_bits(b).to_f32()).collect();
        let row = quant_front(&values);
        rows.extend(row.q);
        row_scale.push(row.scale);
    }

    let (h2, q_scale) = experts(problem, inputs, &offsets, &rows, &row_scale)?;

    // Scatter: each row back to its token.
    let mut out = vec![0; order.len() * hidden];
    for (row, &token) in order.iter().enumerate() {
        for column in 0..hidden {
            let value: f16 = combine_scale(h2[row * hidden + column], q_scale[row]);
            // A sum of one route starts at +0.
            out[token * hidden + column] = f16::from_f32(0.0 + value.to_f32()).to_bits();
        }
    }
    Ok(out)
}

/// Three kernels of the standard layer, on buffers of one's own.
fn experts(
    problem: &Problem,
    inputs: &RankInputs,
    offsets: &[i32],
    rows: &[i8],
    row_scale: &[f32],
) -> Result<(Vec<f16>, Vec<f32>), Box<dyn Error>> {
    let device = VirtualDevice::alone(Soc::named("host")?, ExecutorOptions::default())?;
    let soc = device.soc();
    let (num_rows, hidden) = (row_scale.len(), problem.hidden() as usize);
    let (gate_up, intermediate) = (problem.gate_up() as usize, problem.intermediate() as usize);
    let weights = &inputs.weights;
    let (offsets, a) = (upload(&device, offsets)?, upload(&device, rows)?);
    let row_scale = upload(&device, row_scale)?;
    let (weight1, scale1) = (
        upload(&device, &weights.weight1)?,
        upload(&device, &weights.scale1)?,
    );
    let (weight2, scale2) = (
        upload(&device, &weights.weight2)?,
        upload(&device, &weights.scale2)?,
    );
    let h = upload(&device, &vec![f16::ZERO; num_rows * gate_up])?;
    let q = upload(&device, &vec![0i8; num_rows * intermediate])?;
    let q_scale = upload(&device, &vec![0f32; num_rows])?;
    let h2 = upload(&device, &vec![f16::ZERO; num_rows * hidden])?;

    let gmm1 = GmmIo {
        expert_offset: view(offsets.as_ref()),
        a: view(a.as_ref()),
        weight: view(weight1.as_ref()),
        channel_scale: view(scale1.as_ref()),
        c: view(h.as_ref()),
    };
    let swiglu = SwigluIo {
        expert_offset: view(offsets.as_ref()),
        h: view(h.as_ref()),
        row_scale: view(row_scale.as_ref()),
        q: view(q.as_ref()),
        q_scale: view(q_scale.as_ref()),
    };
    let gmm2 = GmmIo {
        expert_offset: view(offsets.as_ref()),
        a: view(q.as_ref()),
        weight: view(weight2.as_ref()),
        channel_scale: view(scale2.as_ref()),
        c: view(h2.as_ref()),
    };
    // SAFETY: every view has the size that the problem and the offsets say, and outlives the launches.
    unsafe {
        PlannedStage::new(&Gmm1::default(), problem, 0, soc)?.run(&device, &gmm1)?;
        PlannedStage::new(&Swiglu::default(), problem, 0, soc)?.run(&device, &swiglu)?;
        PlannedStage::new(&Gmm2::default(), problem, 0, soc)?.run(&device, &gmm2)?;
    }
    Ok((
        download(h2.as_ref(), num_rows * hidden)?,
        download(q_scale.as_ref(), num_rows)?,
    ))
}
