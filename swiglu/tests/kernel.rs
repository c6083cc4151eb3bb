//! Every variant of the kernel equals the oracle bit for bit.

use half::f16;
use megamoe_device::{
    Device, ExecutorOptions, PlannedStage, VirtualDevice, download, upload, view,
};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::swiglu;
use moe_core::rng::Rng;
use moe_core::slot::SwigluIo;
use moe_core::{FloatType, Problem, ProblemSpec, Soc, Stage};
use proptest::prelude::*;

fn problem(intermediate: u32, experts_per_rank: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![256],
        hidden: 32,
        intermediate,
        experts_per_rank,
        top_k: 1,
        max_output_size: 256,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

fn device(num_aic: u32, seed: Option<u64>) -> VirtualDevice {
    let mut soc = Soc::named("Ascend910B1").unwrap();
    soc.num_aic = num_aic;
    let options = ExecutorOptions {
        seed,
        poison: true,
        ..ExecutorOptions::default()
    };
    VirtualDevice::alone(soc, options).unwrap()
}

/// Values of all sizes; some rows zero, tiny, huge, infinite or not a number.
fn rows(num_rows: usize, gate_up: usize, seed: u64) -> (Vec<f16>, Vec<f32>) {
    let mut rng = Rng::new(seed);
    let mut h: Vec<f16> = (0..num_rows * gate_up)
        .map(|_| f16::from_f32(rng.normal_f32() * 60.0))
        .collect();
    let mut scale: Vec<f32> = (0..num_rows)
        .map(|_| rng.normal_f32().abs() * 0.02)
        .collect();
    for row in 0..num_rows {
        let (start, end) = (row * gate_up, (row + 1) * gate_up);
        match rng.below(12) {
            0 => h[start..end].fill(f16::ZERO),
            1 => scale[row] = 1e-30,
            2 => scale[row] = 1e-22,
            3 => h[end - 1] = f16::INFINITY,
            4 => h[start] = f16::NAN,
            5 => scale[row] = f32::NAN,
            _ => (),
        }
    }
    (h, scale)
}

/// Counts of rows for experts, some without any, as offsets.
fn offsets(experts: u32, num_rows: u32, rng: &mut Rng) -> Vec<u32> {
    let mut cuts: Vec<u32> = (1..experts)
        .map(|_| rng.below(u64::from(num_rows) + 1) as u32)
        .collect();
    cuts.extend([0, num_rows]);
    cuts.sort_unstable();
    cuts
}

fn check(
    stage: &Swiglu,
    device: &VirtualDevice,
    intermediate: u32,
    experts: u32,
    num_rows: u32,
    seed: u64,
) {
    let problem = problem(intermediate, experts);
    let width = 2 * intermediate as usize;
    let (h, scale) = rows(num_rows as usize, width, seed);
    let offsets = offsets(experts, num_rows, &mut Rng::new(seed ^ 1));
    let want = swiglu(intermediate, &h, &scale, stage.options);
    let planned = PlannedStage::new(stage, &problem, 0, device.soc()).unwrap();
    let (gm_offsets, gm_h, gm_scale) = (
        upload(device, &offsets).unwrap(),
        upload(device, &h).unwrap(),
        upload(device, &scale).unwrap(),
    );
    let num_q = num_rows as usize * intermediate as usize;
    let mut q = upload(device, &vec![0x55u8; num_q + 1]).unwrap();
    let mut q_scale = upload(device, &vec![-1.5f32; num_rows as usize + 1]).unwrap();
    for launch in 0..3 {
        let io = SwigluIo {
            expert_offset: view(gm_offsets.as_ref()),
            h: view(gm_h.as_ref()),
            row_scale: view(gm_scale.as_ref()),
            q: view(q.as_ref()),
            q_scale: view(q_scale.as_ref()),
        };
        // SAFETY: every view has the size that the problem and the offsets say.
        unsafe { planned.run(device, &io) }.unwrap();
        let got: Vec<i8> = download(q.as_ref(), num_q + 1).unwrap();
        assert_eq!(
            got[..num_q],
            want.q,
            "{} {:?}, launch {launch}",
            stage.name(),
            stage.options
        );
        assert_eq!(got[num_q], 0x55, "written past the end");
        let got: Vec<f32> = download(q_scale.as_ref(), num_rows as usize + 1).unwrap();
        for (got, want) in got.iter().zip(&want.q_scale) {
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{got} not {want}"
            );
        }
        assert_eq!(got[num_rows as usize], -1.5, "written past the end");
        q.write(0, &vec![0xaa; num_q]).unwrap();
        q_scale
            .write(0, &vec![0xff; 4 * num_rows as usize])
            .unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_on_any_number_of_cores(
        pieces in 1u32..=80,
        experts in 1u32..=5,
        num_rows in 0u32..=40,
        cores in prop_oneof![Just(1u32), Just(2), Just(24)],
        variant in 0usize..4,
        seed in any::<u64>(),
    ) {
        let device = device(cores, None);
        check(&Swiglu::all()[variant], &device, 32 * pieces, experts, num_rows, seed);
    }
}

#[test]
fn schedules_do_not_matter() {
    for seed in 0..30 {
        check(&Swiglu::default(), &device(3, Some(seed)), 96, 2, 17, seed);
    }
}

#[test]
fn rows_longer_than_a_chunk_and_than_a_store_of_scales() {
    for stage in Swiglu::all() {
        check(&stage, &device(1, None), 2880, 2, 3, 5);
        check(&stage, &device(1, None), 14336, 1, 3, 6);
        check(&stage, &device(1, None), 32, 1, 200, 7);
    }
}

#[test]
fn what_does_not_fit_is_said_with_both_numbers() {
    let soc = Soc::named("Ascend910B1").unwrap();
    let error = Swiglu::default()
        .plan(&problem(65536, 1), 0, &soc)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("swiglu-silu needs") && error.contains("of UB for a row of 65536"),
        "{error}"
    );
    let mut stage = Swiglu::default();
    stage.options.limit = Some(-1.0);
    let error = stage
        .plan(&problem(32, 1), 0, &soc)
        .unwrap_err()
        .to_string();
    assert!(error.contains("limit is -1"), "{error}");
}
