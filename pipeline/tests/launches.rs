//! A layer is built once: launches of any size follow each other, nothing is cleared, errors leave it usable.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::rig::Setup;
use common::{random_inputs, spec};
use megamoe_pipeline::layer::{FusedKernel, LayerError, LayerStages, MegaMoe, Tokens, planner};
use megamoe_pipeline::reference;
use megamoe_pipeline::schedule::{CombinePath, Schedule};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::{Activation, ActivationOptions};
use megamoe_window::{Window, WindowLayout, World};
use moe_core::rng::Rng;
use moe_core::{Problem, ProblemSpec, RankInputs};

/// Inputs of a launch: every rank's first tokens, as many as chance says, with other experts each time. A rank's
/// first token, when it has one, and its experts never change.
fn launch_inputs(full: &Problem, all: &[RankInputs], launch: u64) -> (Problem, Vec<RankInputs>) {
    let mut rng = Rng::for_path(&[launch, 77]);
    let (hidden, top_k) = (full.hidden() as usize, full.top_k() as usize);
    let mut inputs = all.to_vec();
    let mut tokens_per_rank = Vec::new();
    for (rank, mine) in (0..).zip(&mut inputs) {
        let num_tokens = rng.below(u64::from(full.num_tokens(rank)) + 1) as usize;
        mine.x.truncate(num_tokens * hidden);
        mine.topk_ids.truncate(num_tokens * top_k);
        mine.probs.truncate(num_tokens * top_k);
        for id in mine.topk_ids.iter_mut().skip(top_k) {
            // One in so many has no expert.
            let experts = u64::from(full.num_experts());
            *id = rng.below(experts + 1) as i32 - 1;
        }
        tokens_per_rank.push(num_tokens as u32);
    }
    (full.with_tokens(tokens_per_rank).unwrap(), inputs)
}

const NUM_LAUNCHES: u64 = 1000;

/// Launches that vary, while one rank after the other comes late: no barrier between launches, nothing cleared.
fn many_launches(setup: &Setup) {
    let problem = spec(&[7, 1, 12, 5], 2).build().unwrap();
    let all = random_inputs(&problem, 11);
    let want: Vec<Vec<Vec<u16>>> = (0..NUM_LAUNCHES)
        .map(|launch| {
            let (problem, inputs) = launch_inputs(&problem, &all, launch);
            reference::run(&problem, &inputs, ActivationOptions::default()).out
        })
        .collect();
    let executor = setup.executor(all.len());
    let world = World::new(WindowLayout::new(&problem).unwrap());
    let run = world.run_threads(|window| {
        let rank = window.rank() as usize;
        let device = setup.device(window, &executor);
        let mut layer = setup.layer(&problem, window, &device, &all[rank]);
        let mut first_token: Option<Vec<u16>> = None;
        for launch in 0..NUM_LAUNCHES {
            let (_, inputs) = launch_inputs(&problem, &all, launch);
            if launch as usize % all.len() == rank {
                std::thread::sleep(Duration::from_millis(1));
            }
            layer.run(&inputs[rank])?;
            let out = layer.output()?;
            assert_eq!(
                out, want[launch as usize][rank],
                "launch {launch}, rank {rank}"
            );
            if let Some(row) = out.get(..problem.hidden() as usize) {
                let first = first_token.get_or_insert_with(|| row.to_vec());
                assert_eq!(
                    row, first,
                    "launch {launch}: other tokens changed the first one"
                );
            }
        }
        Ok(first_token.is_some())
    });
    assert_eq!(run.unwrap(), [true; 4]);
}

#[test]
fn a_thousand_launches_of_the_fused_kernel_on_every_preset() {
    for (name, _) in Schedule::PRESETS {
        let setup = Setup::fused(Schedule::named(name).unwrap());
        many_launches(&Setup {
            cores: 3,
            in_step: false,
            ..setup
        });
    }
}

#[test]
fn a_thousand_launches_of_separate_stages() {
    many_launches(&Setup {
        in_step: false,
        ..Setup::SEPARATE
    });
}

/// Runs `body` on the only rank of a world for `problem`.
fn on_one_rank(problem: &Problem, body: impl Fn(&mut Window, RankInputs) + Sync) {
    let inputs = random_inputs(problem, 1);
    let world = World::new(WindowLayout::new(problem).unwrap());
    let run = world.run_threads(|window| {
        body(window, inputs[0].clone());
        Ok(())
    });
    run.unwrap();
}

#[track_caller]
fn assert_error<T>(result: Result<T, LayerError>, parts: &[&str]) {
    let message = result.err().expect("an error").to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn inputs_that_do_not_fit_are_refused_and_the_next_launch_works() {
    let problem = spec(&[6], 2).build().unwrap();
    on_one_rank(&problem, |window, mut inputs| {
        let mut layer = MegaMoe::builder(&problem)
            .build(window, &inputs.weights)
            .unwrap();
        let good = inputs.clone();
        let want = reference::run(
            &problem,
            std::slice::from_ref(&good),
            ActivationOptions::default(),
        );

        let many = vec![0; 7 * 32];
        let tokens = Tokens {
            x: &many,
            ..Tokens::from(&good)
        };
        assert_error(layer.run(tokens), &["rank 0: 7 tokens", "at most 6"]);
        assert_error(layer.inputs_mut(9), &["9 tokens", "at most 6"]);
        let tokens = Tokens {
            x: &good.x[..33],
            ..Tokens::from(&good)
        };
        assert_error(layer.run(tokens), &["x", "33", "32"]);
        let tokens = Tokens {
            probs: &good.probs[1..],
            ..Tokens::from(&good)
        };
        assert_error(layer.run(tokens), &["probs", "11", "12"]);
        inputs.topk_ids[3] = 2;
        assert_error(layer.run(&inputs), &["token 1, slot 1", "2"]);
        let views = layer.inputs_mut(6).unwrap();
        views.topk_ids.copy_from_slice(&good.topk_ids);
        views.topk_ids[3] = -7;
        assert_error(layer.run_in_place(), &["token 1, slot 1", "-7"]);

        layer.run(&good).unwrap();
        assert_eq!(layer.output().unwrap(), want.out[0]);
    });
}

/// Routes that find no room fail the launch that has them, and no other.
#[test]
fn a_launch_that_drops_routes_fails_with_their_experts() {
    let problem = ProblemSpec {
        max_output_size: 12,
        ..spec(&[6, 6], 2)
    };
    let problem = problem.build().unwrap();
    let mut good = random_inputs(&problem, 1);
    let mut bad = good.clone();
    let set_ids = |inputs: &mut [RankInputs], pair: [i32; 2]| {
        for rank in inputs {
            for ids in rank.topk_ids.chunks_mut(2) {
                ids.copy_from_slice(&pair);
            }
        }
    };
    set_ids(&mut good, [0, 2]);
    set_ids(&mut bad, [0, 1]);
    let want = reference::run(&problem, &good, ActivationOptions::default()).out;
    for separate in [false, true] {
        let world = World::new(WindowLayout::new(&problem).unwrap());
        let run = world.run_threads(|window| {
            let rank = window.rank() as usize;
            let mut layer = MegaMoe::builder(&problem)
                .separate(separate)
                .build(window, &good[rank].weights)?;
            match rank {
                0 => assert_error(
                    layer.run(&bad[rank]),
                    &[
                        "max_output_size is 12",
                        "rank 0, expert 1: 6 from rank 0; rank 0, expert 1: 6 from rank 1",
                    ],
                ),
                _ => assert_eq!(layer.run(&bad[rank])?.num_dropped(), 0),
            }
            layer.run(&good[rank])?;
            Ok(layer.output()?)
        });
        assert_eq!(run.unwrap(), want);
    }
}

#[test]
fn a_stage_of_another_class_than_the_fused_kernel_has_is_refused() {
    let problem = spec(&[3], 1).build().unwrap();
    on_one_rank(&problem, |window, inputs| {
        let gelu = ActivationOptions {
            activation: Activation::Gelu,
            ..ActivationOptions::default()
        };
        let stages = || {
            let mut stages = LayerStages::standard(ActivationOptions::default(), CombinePath::Auto);
            stages.swiglu = planner(Swiglu { options: gelu });
            stages
        };
        let builder = || MegaMoe::builder(&problem).stages(stages());
        assert_error(
            builder().build(window, &inputs.weights),
            &[
                "megamoe_fused_silu",
                "megamoe::Silu",
                "megamoe::Gelu",
                "swiglu",
            ],
        );
        let mut outputs = Vec::new();
        for builder in [
            builder().separate(true),
            builder().fused_kernel(FusedKernel::standard(Activation::Gelu)),
            MegaMoe::builder(&problem).activation(gelu),
        ] {
            let mut layer = builder.build(window, &inputs.weights).unwrap();
            layer.run(&inputs).unwrap();
            outputs.push(layer.output().unwrap());
        }
        let want = reference::run(&problem, std::slice::from_ref(&inputs), gelu).out;
        for out in outputs {
            assert_eq!(out, want[0]);
        }
    });
}

#[test]
fn weights_and_windows_of_another_problem_are_refused() {
    let problem = spec(&[3], 1).build().unwrap();
    let other = spec(&[5], 1).build().unwrap();
    on_one_rank(&problem, |window, mut inputs| {
        assert_error(
            MegaMoe::builder(&other).build(window, &inputs.weights),
            &["the window was made for another problem"],
        );
        let weights = Arc::make_mut(&mut inputs.weights);
        weights.scale2.pop();
        assert_error(
            MegaMoe::builder(&problem).build(window, &inputs.weights),
            &["scale2", "63", "64"],
        );
    });
}

/// A rank that never launches is named by those that wait for it, and their layer says so again.
#[test]
fn a_rank_that_stays_away_is_named() {
    let problem = spec(&[4, 4, 4], 2).build().unwrap();
    let inputs = random_inputs(&problem, 2);
    for separate in [false, true] {
        let deadline = Duration::from_millis(300);
        let world = World::new(WindowLayout::new(&problem).unwrap()).with_deadline(deadline);
        let messages = Mutex::new(Vec::new());
        let run = world.run_threads(|window| {
            let rank = window.rank() as usize;
            if rank == 1 {
                // Its thread ends only when the others have given up.
                std::thread::sleep(4 * deadline);
                return Ok(());
            }
            let mut layer = MegaMoe::builder(&problem)
                .separate(separate)
                .build(window, &inputs[rank].weights)?;
            let message = layer.run(&inputs[rank]).err().map(|e| e.to_string());
            messages.lock().unwrap().push(message.unwrap_or_default());
            Ok(())
        });
        run.unwrap();
        let messages = messages.into_inner().unwrap();
        for message in messages {
            assert!(
                message.contains("counts[4], which rank 1 writes"),
                "{message}"
            );
        }
    }
}

/// What cores log: their spans lie in order, every stage has work, and waits point at the rank that was late.
#[test]
fn a_report_names_the_late_rank() {
    let problem = spec(&[40, 30, 20], 2).build().unwrap();
    let inputs = random_inputs(&problem, 3);
    for (name, _) in Schedule::PRESETS {
        let setup = Setup {
            cores: 3,
            in_step: false,
            ..Setup::fused(Schedule::named(name).unwrap())
        };
        let executor = setup.executor(inputs.len());
        let world = World::new(WindowLayout::new(&problem).unwrap());
        let run = world.run_threads(|window| {
            let rank = window.rank() as usize;
            let device = setup.device(window, &executor);
            let mut layer = setup.layer(&problem, window, &device, &inputs[rank]);
            layer.window().barrier()?;
            if rank == 1 {
                std::thread::sleep(Duration::from_millis(200));
            }
            Ok(layer.run(&inputs[rank])?)
        });
        for (rank, report) in run.unwrap().iter().enumerate() {
            assert_eq!(report.cores.len(), 3 + 6);
            for core in &report.cores {
                let mut now = 0;
                for work in &core.work {
                    assert!(
                        now <= work.asked && work.asked <= work.begin && work.begin <= work.end
                    );
                    now = work.end;
                }
            }
            assert!(
                report.stage_times.iter().all(|time| !time.busy.is_zero()),
                "{name}: {report:?}"
            );
            let waits = &report.peer_waits;
            assert_eq!(waits.len(), 3);
            if rank != 1 {
                assert_eq!(
                    waits.iter().max(),
                    Some(&waits[1]),
                    "{name}, rank {rank}: {waits:?}"
                );
            }
        }
    }
}
