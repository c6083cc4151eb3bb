//! The layer as kernels equals the oracles bit for bit: every stage's result, every variant, any shape.

mod common;

use std::sync::Arc;

use common::{SHARED_CASES, case_dir, random_inputs, spec};
use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{Device, Executor, ExecutorOptions, PlannedStage, VirtualDevice};
use megamoe_front_reorder::Path;
use megamoe_pipeline::case::Case;
use megamoe_pipeline::kernels::{KernelLayer, LayerStages};
use megamoe_pipeline::reference;
use megamoe_pipeline::verify::Comparison;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::window::Rows;
use megamoe_window::{Region, Window, WindowError, WindowLayout, World};
use moe_core::exchange::CountTable;
use moe_core::rng::Rng;
use moe_core::{FloatType, Problem, ProblemSpec, RankInputs, Soc};
use proptest::prelude::*;

const PATHS: [Path; 3] = [Path::FullLoad, Path::OneCore, Path::MultiCore];

/// How a world's kernels run.
#[derive(Clone, Copy, Debug)]
struct Setup {
    path: Option<Path>,
    small_combine: bool,
    cores: u32,
    seed: Option<u64>,
    /// Devices launch together, so that a seed decides everything; else ranks may run ahead.
    in_step: bool,
    launches: u32,
}

const PLAIN: Setup = Setup {
    path: None,
    small_combine: false,
    cores: 2,
    seed: None,
    in_step: true,
    launches: 1,
};

fn stages(problem: &Problem, rank: u32, soc: &Soc, setup: Setup) -> LayerStages {
    let mut stages =
        LayerStages::standard(problem, rank, soc, ActivationOptions::default()).unwrap();
    if let Some(path) = setup.path {
        stages.front = megamoe_front_reorder::planned(path, problem, rank, soc).unwrap();
    }
    stages.combine = if setup.small_combine {
        PlannedStage::new(&DirectSmall, problem, rank, soc).unwrap()
    } else {
        PlannedStage::new(&DirectLarge, problem, rank, soc).unwrap()
    };
    stages
}

/// Runs the world and checks what every stage left at every rank; the outputs.
fn run(problem: &Problem, inputs: &[RankInputs], setup: Setup) -> Vec<Vec<u16>> {
    let options = ExecutorOptions {
        seed: setup.seed,
        num_devices: if setup.in_step { inputs.len() } else { 1 },
        has_outside_peers: !setup.in_step,
        poison: true,
        ..ExecutorOptions::default()
    };
    let executor = Arc::new(Executor::new(options).unwrap());
    let counts = CountTable::from_ids(problem, inputs.iter().map(|i| i.topk_ids.as_slice()));
    let world = World::new(WindowLayout::new(problem).unwrap());
    let outputs = world.run_threads(|window| {
        let rank = window.rank();
        let mut soc = Soc::named("Ascend910B1")?;
        soc.num_aic = setup.cores;
        let device = VirtualDevice::new(soc, rank, Arc::clone(&executor))
            .with_peer_failure(window.failure_probe());
        let stages = stages(problem, rank, device.soc(), setup);
        let mut layer = KernelLayer::new(problem, rank, &device, &inputs[rank as usize], stages)?;
        let mut out = Vec::new();
        for _ in 0..setup.launches {
            poison(window)?;
            out = layer.launch(window)?.out;
        }
        check_intermediates(problem, rank, inputs, &counts, &layer);
        Ok(out)
    });
    outputs.unwrap_or_else(|error| panic!("{setup:?}: {error}"))
}

/// Fills this rank's rows with NaNs: whoever reads a row that nobody wrote in this launch shows it.
fn poison(window: &mut Window) -> Result<(), WindowError> {
    window.barrier()?;
    let launch = window.begin()?;
    for (rows, region) in [
        (Rows::Packed, Region::PackedRows),
        (Rows::Returned, Region::ReturnedRows),
    ] {
        let bytes = launch.window().layout().extent(region).bytes();
        launch.put(launch.window().rank(), rows, 0, &vec![0xff; bytes as usize])?;
    }
    Ok(window.barrier()?)
}

fn check_intermediates(
    problem: &Problem,
    rank: u32,
    inputs: &[RankInputs],
    counts: &CountTable,
    layer: &KernelLayer<'_>,
) {
    let fronts: Vec<_> = (0..)
        .zip(inputs)
        .map(|(rank, i)| {
            megamoe_front_reorder::reference::front_reorder(problem, rank, &i.x, &i.topk_ids)
        })
        .collect();
    let row_bytes = problem.packed_row_bytes() as usize;
    let want = megamoe_dispatch::reference::dispatch(problem, rank, counts, |source, row| {
        let start = row as usize * row_bytes;
        &fronts[source as usize].packed_rows[start..start + row_bytes]
    });
    let got = layer.intermediates().unwrap();
    assert_eq!(got.row_of_route, fronts[rank as usize].row_of_route);
    assert_eq!(got.metadata, counts.metadata(rank));
    assert_eq!(got.rows, want.rows);
    let bits = |scales: &[f32]| {
        scales
            .iter()
            .map(|s| if s.is_nan() { 0 } else { s.to_bits() })
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(&got.row_scale), bits(&want.row_scale));
    let dropped: Vec<i32> = counts
        .dropped(rank)
        .into_iter()
        .map(u32::cast_signed)
        .collect();
    assert_eq!(got.dropped, dropped);
}

fn check(problem: &Problem, inputs: &[RankInputs], setup: Setup) {
    let want = reference::run(problem, inputs, ActivationOptions::default()).out;
    let got = run(problem, inputs, setup);
    let comparison = Comparison::of(problem.output_type(), problem.hidden(), &got, &want);
    assert!(
        comparison.num_bit_equal == comparison.num_elements,
        "{setup:?}: {comparison:?}"
    );
}

#[test]
fn shared_cases() {
    for name in SHARED_CASES {
        let case = Case::read(&case_dir(name), &|| ()).unwrap();
        for path in PATHS {
            for small_combine in [false, true] {
                let setup = Setup {
                    path: Some(path),
                    small_combine,
                    launches: 3,
                    ..PLAIN
                };
                check(&case.problem, &case.inputs, setup);
            }
        }
    }
}

fn any_problem() -> impl Strategy<Value = ProblemSpec> {
    let tokens = prop::collection::vec(prop_oneof![Just(0u32), 1..=9u32, 30..=50u32], 1..=4);
    let float = || prop_oneof![Just(FloatType::Bf16), Just(FloatType::F16)];
    (
        tokens,
        1u32..=4,
        1u32..=6,
        1u32..=3,
        1u32..=70,
        float(),
        float(),
        any::<bool>(),
    )
        .prop_map(
            |(tokens, top_k, wide, deep, experts, input_type, output_type, is_tight)| {
                let ranks = tokens.len() as u32;
                let top_k = top_k.min(ranks * experts);
                let busiest = tokens.iter().max().unwrap() * top_k;
                let base = spec(&tokens, top_k);
                ProblemSpec {
                    hidden: 32 * wide,
                    intermediate: 32 * deep,
                    experts_per_rank: experts,
                    input_type,
                    output_type,
                    max_output_size: if is_tight {
                        busiest.max(1)
                    } else {
                        base.max_output_size
                    },
                    ..base
                }
            },
        )
}

/// Some routes without an expert, some tokens that name one expert twice, some experts that many name.
fn skew(inputs: &mut [RankInputs], seed: u64) {
    let mut rng = Rng::new(seed);
    for rank in inputs {
        for id in &mut rank.topk_ids {
            match rng.below(8) {
                0 => *id = -1,
                1 | 2 => *id = 0,
                _ => (),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layer(
        spec in any_problem(),
        path in 0usize..3,
        small_combine in any::<bool>(),
        cores in prop_oneof![Just(1u32), Just(2), Just(24)],
        seed in any::<u64>(),
    ) {
        let problem = spec.build().unwrap();
        let mut inputs = random_inputs(&problem, seed);
        skew(&mut inputs, seed);
        let setup = Setup { path: Some(PATHS[path]), small_combine, cores, launches: 3, seed: None, in_step: true };
        check(&problem, &inputs, setup);
    }
}

#[test]
fn schedules_do_not_matter() {
    let problem = spec(&[5, 0, 9], 2).build().unwrap();
    let mut inputs = random_inputs(&problem, 1);
    skew(&mut inputs, 2);
    for seed in 0..40 {
        let path = Some(PATHS[seed as usize % 3]);
        let setup = Setup {
            path,
            seed: Some(seed),
            small_combine: seed % 2 == 0,
            launches: 2,
            ..PLAIN
        };
        check(&problem, &inputs, setup);
    }
}

/// Without steps a rank may dispatch while another still packs: only signals hold it back.
#[test]
fn ranks_may_run_ahead() {
    let problem = spec(&[6, 2, 9], 2).build().unwrap();
    let inputs = random_inputs(&problem, 3);
    for seed in 0..60 {
        let setup = Setup {
            path: Some(PATHS[seed as usize % 3]),
            seed: Some(seed),
            in_step: false,
            small_combine: seed % 2 == 0,
            launches: 2,
            ..PLAIN
        };
        check(&problem, &inputs, setup);
    }
}

/// More than half of all rows find no room: they contribute nothing, and nothing is read for them.
#[test]
fn rows_beyond_the_capacity() {
    let small = ProblemSpec {
        max_output_size: 20,
        ..spec(&[10, 10, 7], 2)
    };
    let problem = small.build().unwrap();
    let mut inputs = random_inputs(&problem, 4);
    for rank in &mut inputs {
        for ids in rank.topk_ids.chunks_mut(2) {
            ids.copy_from_slice(&[0, 1]);
        }
    }
    for path in PATHS {
        let setup = Setup {
            path: Some(path),
            launches: 2,
            ..PLAIN
        };
        check(&problem, &inputs, setup);
    }
}

/// The published rule for K = 7168, top-k 8 and 128 experts.
#[test]
fn the_published_paths() {
    let soc = Soc::named("Ascend910B1").unwrap();
    let expected = [
        (16, Path::FullLoad),
        (256, Path::FullLoad),
        (512, Path::OneCore),
        (768, Path::OneCore),
        (1024, Path::MultiCore),
        (2048, Path::MultiCore),
    ];
    for (tokens, path) in expected {
        let spec = ProblemSpec {
            hidden: 7168,
            intermediate: 2048,
            experts_per_rank: 16,
            ..spec(&[tokens; 8], 8)
        };
        assert_eq!(
            Path::choose(&spec.build().unwrap(), 0, &soc),
            path,
            "{tokens} tokens"
        );
    }
}
