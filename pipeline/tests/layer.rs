//! The layer, fused and as kernels of its stages, equals the oracles bit for bit: every stage's result, every
//! variant, any shape, any schedule.

mod common;

use common::rig::{PATHS, Setup, check, check_against, skew};
use common::{SHARED_CASES, case_dir, random_inputs, spec};
use megamoe_front_reorder::Path;
use megamoe_pipeline::case::Case;
use megamoe_pipeline::reference;
use megamoe_pipeline::schedule::{
    CombineChoice, Cores, CoresChoice, Gmm1Choice, Gmm2Choice, Schedule, UnpermuteChoice,
};
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::{FloatType, ProblemSpec, Soc};
use proptest::prelude::*;

#[test]
fn shared_cases() {
    for name in SHARED_CASES {
        let case = Case::read(&case_dir(name), &|| ()).unwrap();
        let want = reference::run(&case.problem, &case.inputs, ActivationOptions::default()).out;
        for setup in Setup::every() {
            for path in PATHS {
                for small_combine in [false, true] {
                    let setup = Setup {
                        path: Some(path),
                        small_combine,
                        launches: 3,
                        ..setup.clone()
                    };
                    check_against(&case.problem, &case.inputs, &setup, &want);
                }
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

/// One core, a few, or a whole device.
const CORES: [u32; 4] = [1, 2, 3, 24];

fn any_cores() -> impl Strategy<Value = Cores> {
    prop_oneof![
        2 => Just(Cores::All),
        1 => Just(Cores::Count(1)),
        3 => (1u32..=4, 4u32..=6).prop_map(|(part, of)| Cores::Share { part, of }),
    ]
}

/// Some schedule, legal for a device of `cores` matrix cores: what does not go with the rest falls back to the default.
fn any_schedule(cores: u32) -> impl Strategy<Value = Schedule> {
    let groups = (
        any_cores(),
        any_cores(),
        any_cores(),
        any_cores(),
        any_cores(),
    );
    let experts = (
        prop::option::of(1u32..=6),
        0u32..=3,
        prop::option::of(0u32..=3),
        0u32..=5,
        0u32..=3,
    );
    (groups, experts, 0u32..=100).prop_map(move |(groups, experts, early_percent)| {
        let (gmm1, gmm2, dispatch, swiglu, combine) = groups;
        let (experts_per_wave, all_cores_experts, join_from, combine_after, early_after) = experts;
        let mut schedule = Schedule {
            experts_per_wave,
            gmm1: Gmm1Choice {
                cores: gmm1,
                all_cores_experts,
            },
            gmm2: Gmm2Choice {
                cores: gmm2,
                join_from,
            },
            dispatch: CoresChoice { cores: dispatch },
            swiglu: CoresChoice { cores: swiglu },
            combine: CombineChoice {
                cores: combine,
                start_after: combine_after,
                ..CombineChoice::default()
            },
            unpermute: UnpermuteChoice {
                early_percent,
                start_after: early_after,
            },
        };
        let soc = Setup {
            cores,
            ..Setup::SEPARATE
        }
        .soc();
        let is_legal = |schedule: &Schedule| schedule.resolve(&soc, 100).is_ok();
        if !is_legal(&schedule) {
            schedule.gmm2.join_from = None;
        }
        if !is_legal(&schedule) {
            schedule.combine.start_after = 0;
        }
        if !is_legal(&schedule) {
            schedule.unpermute.early_percent = 0;
        }
        schedule
    })
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let schedule = prop::sample::select(&CORES[..]).prop_flat_map(|cores| {
        let fused = any_schedule(cores).prop_map(Some);
        (Just(cores), prop_oneof![1 => Just(None), 3 => fused])
    });
    (schedule, 0usize..3, any::<bool>()).prop_map(|((cores, schedule), path, small_combine)| {
        Setup {
            schedule,
            path: Some(PATHS[path]),
            small_combine,
            cores,
            launches: 3,
            ..Setup::SEPARATE
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layer(spec in any_problem(), setup in any_setup(), seed in any::<u64>()) {
        let problem = spec.build().unwrap();
        let mut inputs = random_inputs(&problem, seed);
        skew(&mut inputs, seed);
        check(&problem, &inputs, &setup);
    }

    /// In which order cores run decides nothing, nor whether a rank is far ahead of the others.
    #[test]
    fn any_order_of_cores(setup in any_setup(), seed in any::<u64>(), in_step in any::<bool>()) {
        let problem = spec(&[5, 0, 9], 2).build().unwrap();
        let mut inputs = random_inputs(&problem, 1);
        skew(&mut inputs, 2);
        let setup = Setup { seed: Some(seed), in_step, launches: 2, ..setup };
        check(&problem, &inputs, &setup);
    }
}

#[test]
fn worlds_of_any_size() {
    for ranks in [1, 2, 3, 8, 16] {
        let problem = spec(&vec![5; ranks], 2).build().unwrap();
        let mut inputs = random_inputs(&problem, 5);
        skew(&mut inputs, 6);
        for setup in Setup::every() {
            check(&problem, &inputs, &setup);
        }
    }
}

#[test]
fn any_number_of_experts() {
    for experts_per_rank in [1, 3, 8, 16, 17, 32, 64, 128] {
        let problem = ProblemSpec {
            experts_per_rank,
            ..spec(&[40, 23], 2)
        };
        let problem = problem.build().unwrap();
        let mut inputs = random_inputs(&problem, 7);
        skew(&mut inputs, 8);
        for setup in Setup::every() {
            let setup = Setup {
                launches: 2,
                ..setup
            };
            check(&problem, &inputs, &setup);
        }
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
    for setup in Setup::every() {
        for path in PATHS {
            let setup = Setup {
                path: Some(path),
                launches: 2,
                ..setup.clone()
            };
            check(&problem, &inputs, &setup);
        }
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
