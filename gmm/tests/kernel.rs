//! The kernel equals the oracle bit for bit, whatever the tiles, the schedule and the number of cores.

use std::sync::Arc;

use half::f16;
use megamoe_device::{
    Device, ExecutorOptions, PlannedStage, VirtualDevice, download, upload, view,
};
use megamoe_gmm::reference::{Gmm, gmm};
use megamoe_gmm::{Gmm1, Gmm2, GmmOptions, TileSizes};
use moe_core::rng::Rng;
use moe_core::slot::GmmIo;
use moe_core::weights::packed_bytes;
use moe_core::{FloatType, Problem, ProblemSpec, Slot, Soc, Stage};
use proptest::prelude::*;

fn problem(hidden: u32, intermediate: u32, experts_per_rank: u32) -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![1024],
        hidden,
        intermediate,
        experts_per_rank,
        top_k: 1,
        max_output_size: 1024,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

const SOCS: [&str; 2] = ["Ascend910B1", "host"];

fn device(soc: &str, num_aic: u32, seed: Option<u64>) -> VirtualDevice {
    let mut soc = Soc::named(soc).unwrap();
    soc.num_aic = num_aic;
    let options = ExecutorOptions {
        seed,
        poison: true,
        ..ExecutorOptions::default()
    };
    VirtualDevice::alone(soc, options).unwrap()
}

/// A grouped matmul of `rows` rows for each expert.
struct Case {
    k: u32,
    n: u32,
    offsets: Vec<u32>,
    a: Vec<i8>,
    weight: Vec<i8>,
    channel_scale: Vec<u64>,
}

impl Case {
    fn new(k: u32, n: u32, rows: &[u32], seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut offsets = vec![0];
        offsets.extend(rows.iter().scan(0, |sum, rows| {
            *sum += rows;
            Some(*sum)
        }));
        let num_rows: u32 = rows.iter().sum();
        let experts = rows.len() as u64;
        let mut bytes = |len: u64| (0..len).map(|_| rng.next_u64() as i8).collect::<Vec<_>>();
        let a = bytes(u64::from(num_rows) * u64::from(k));
        let weight = bytes(experts * packed_bytes(k.into(), n.into()));
        // Some scales overflow a half, some are negative, all have low bits that the unit drops.
        let scale = |_| u64::from((rng.normal_f32() * 2e-3).to_bits() | 0x0fff);
        let channel_scale = (0..experts * u64::from(n)).map(scale).collect();
        Self {
            k,
            n,
            offsets,
            a,
            weight,
            channel_scale,
        }
    }

    fn want(&self) -> Vec<f16> {
        gmm(&Gmm {
            k: self.k,
            n: self.n,
            expert_offsets: &self.offsets,
            a: &self.a,
            weight: &self.weight,
            channel_scale: &self.channel_scale,
        })
    }

    fn check<S: Slot<Io = GmmIo>>(&self, device: &VirtualDevice, stage: &PlannedStage<S>) {
        let want = self.want();
        let put = |bytes: &[u8]| upload(device, bytes).unwrap();
        let offsets = put(bytemuck::cast_slice(&self.offsets));
        let a = put(bytemuck::cast_slice(&self.a));
        // Memory that only is read takes another way, and what lies beside it must not matter.
        let weight = if self.offsets.len().is_multiple_of(2) {
            device
                .import(Arc::new(
                    bytemuck::cast_slice::<i8, u8>(&self.weight).to_vec(),
                ))
                .unwrap()
        } else {
            put(bytemuck::cast_slice(&self.weight))
        };
        let channel_scale = put(bytemuck::cast_slice(&self.channel_scale));
        let mut c = upload(device, &vec![0x7e55u16; want.len() + 1]).unwrap();
        for launch in 0..3 {
            let io = GmmIo {
                expert_offset: view(offsets.as_ref()),
                a: view(a.as_ref()),
                weight: view(weight.as_ref()),
                channel_scale: view(channel_scale.as_ref()),
                c: view(c.as_ref()),
            };
            // SAFETY: every view has the size that the problem and the offsets say.
            unsafe { stage.run(device, &io) }.unwrap();
            let got: Vec<u16> = download(c.as_ref(), want.len() + 1).unwrap();
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let (row, column) = (i / self.n as usize, i % self.n as usize);
                assert_eq!(
                    *got,
                    want.to_bits(),
                    "launch {launch}, row {row}, column {column}"
                );
            }
            assert_eq!(got[want.len()], 0x7e55, "written past the end");
            c.write(0, &vec![0xaa; 2 * want.len()]).unwrap();
        }
    }
}

fn any_options() -> impl Strategy<Value = GmmOptions> {
    (
        1u32..=8,
        1u32..=8,
        1u32..=4,
        1u32..=4,
        1u32..=10,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(m, n, l0, l1, swizzle, rotate, narrow_single)| GmmOptions {
                sizes: Some(TileSizes {
                    tile_m: 16 * m,
                    tile_n: 32 * n,
                    k_l0: 32 * l0,
                    k_l1: 32 * l0 * l1,
                }),
                swizzle: Some(swizzle),
                rotate,
                narrow_single,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_tiling_and_number_of_cores(
        (deep, wide) in (1u32..=10, 1u32..=10),
        rows in prop::collection::vec(prop_oneof![Just(0u32), 1..=20u32, 100..=150u32], 1..=4),
        soc in prop::sample::select(&SOCS[..]),
        cores in prop_oneof![Just(1u32), Just(2), Just(24)],
        options in prop_oneof![Just(GmmOptions::default()), any_options()],
        seed in any::<u64>(),
    ) {
        let device = device(soc, cores, None);
        let experts = rows.len() as u32;
        let problem = problem(32 * deep, 32 * wide, experts);
        let first = PlannedStage::new(&Gmm1 { options }, &problem, 0, device.soc()).unwrap();
        Case::new(32 * deep, 64 * wide, &rows, seed).check(&device, &first);
        let second = PlannedStage::new(&Gmm2 { options }, &problem, 0, device.soc()).unwrap();
        Case::new(32 * wide, 32 * deep, &rows, seed).check(&device, &second);
    }
}

#[test]
fn schedules_do_not_matter() {
    let problem = problem(160, 96, 3);
    for seed in 0..20 {
        let device = device(SOCS[seed as usize % 2], 3, Some(seed));
        let stage = PlannedStage::new(&Gmm1::default(), &problem, 0, device.soc()).unwrap();
        Case::new(160, 192, &[5, 0, 140], seed).check(&device, &stage);
    }
}

#[test]
fn sizes_of_real_models() {
    for ((hidden, intermediate), soc) in [(2880, 2880), (2688, 1856), (2816, 704)]
        .into_iter()
        .flat_map(|sizes| SOCS.map(|soc| (sizes, soc)))
    {
        let device = device(soc, 2, None);
        let problem = problem(hidden, intermediate, 1);
        let first = PlannedStage::new(&Gmm1::default(), &problem, 0, device.soc()).unwrap();
        Case::new(hidden, 2 * intermediate, &[3], 1).check(&device, &first);
        let second = PlannedStage::new(&Gmm2::default(), &problem, 0, device.soc()).unwrap();
        Case::new(intermediate, hidden, &[3], 2).check(&device, &second);
    }
}

#[test]
fn options_out_of_range_are_named() {
    let soc = Soc::named("Ascend910B1").unwrap();
    let refused = |options: GmmOptions, part: &str| {
        let error = Gmm1 { options }
            .plan(&problem(64, 64, 1), 0, &soc)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    };
    let sized = |change: fn(&mut TileSizes)| {
        let mut sizes = TileSizes {
            tile_m: 128,
            tile_n: 256,
            k_l1: 512,
            k_l0: 128,
        };
        change(&mut sizes);
        GmmOptions {
            sizes: Some(sizes),
            ..GmmOptions::default()
        }
    };
    refused(
        sized(|sizes| sizes.tile_m = 144),
        "tile_m is 144, but must be a multiple of 16 from 16 to 128",
    );
    refused(sized(|sizes| sizes.tile_n = 0), "tile_n is 0");
    refused(
        sized(|sizes| sizes.tile_n = 288),
        "tile_n is 288, but must be a multiple of 32 from 32 to 256",
    );
    refused(
        sized(|sizes| sizes.k_l1 = 192),
        "k_l1 is 192, but must be a multiple of 128",
    );
    refused(
        GmmOptions {
            swizzle: Some(0),
            ..GmmOptions::default()
        },
        "swizzle is 0",
    );
    let small = Soc {
        l1_bytes: 1 << 18,
        ..soc.clone()
    };
    let error = Gmm1::default()
        .plan(&problem(64, 64, 1), 0, &small)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("bytes of L1") && error.contains("262144"),
        "{error}"
    );
}
