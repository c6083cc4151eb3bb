//! The layer on NPUs as a library uses it: windows that the host can't look into, ranks that do not come, memory under
//! kernels that still run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bisheng_sys::Cann;
use cann_stand_in::control::{self, Opened};
use megamoe_device::DeviceError;
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::layer::{LayerError, MegaMoe};
use megamoe_pipeline::npu::Npus;
use megamoe_pipeline::reference;
use megamoe_window::window::Rows;
use megamoe_window::{Signal, WindowError, WindowLayout, World};
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{FloatType, Problem, ProblemSpec, RankInputs};

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn npus() -> (tempfile::TempDir, Npus) {
    let home = tempfile::tempdir().unwrap();
    control::install(home.path()).unwrap();
    let cann = Cann::load_from(Some(&home.path().join("lib64"))).unwrap();
    (home, Npus::start(&cann, &control::library()).unwrap())
}

fn problem() -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![16, 9],
        hidden: 64,
        intermediate: 32,
        experts_per_rank: 2,
        top_k: 2,
        max_output_size: 50,
        input_type: FloatType::Bf16,
        output_type: FloatType::Bf16,
    }
    .build()
    .unwrap()
}

fn inputs(problem: &Problem) -> Vec<RankInputs> {
    let data = DataSpec {
        kind: DataKind::Random,
        routing: RoutingSource::Made(RoutingKind::Uniform),
        seed: 8,
    };
    generate(problem, &data, &|| ()).unwrap()
}

#[test]
fn a_layer_on_npus_equals_the_oracle_and_times_itself() {
    let _alone = alone();
    let (problem, opened) = (problem(), Opened::new());
    let inputs = inputs(&problem);
    let want = reference::run(&problem, &inputs, Default::default()).out;
    {
        let (_home, npus) = npus();
        let world = World::new(WindowLayout::new(&problem).unwrap());
        let body = |window: &mut megamoe_window::Window| {
            let mine = &inputs[window.rank() as usize];
            let device = npus.device(window)?;
            let mut layer = MegaMoe::builder(&problem)
                .device(&device)
                .build(window, &mine.weights)?;
            let report = layer.run(mine)?;
            assert!(report.device_time.unwrap() > Duration::ZERO);
            let out = layer.output()?;
            let error = layer.inputs_mut(1).unwrap_err();
            assert!(
                matches!(error, LayerError::NotHostMemory { name: "x" }),
                "{error}"
            );
            Ok(out)
        };
        assert_eq!(world.run_threads(body).unwrap(), want);
    }
    assert!(opened.report().is_clean(), "{:?}", opened.report());
}

/// Nobody should read the host's side of a window whose contents are on an NPU.
#[test]
fn the_host_is_refused_what_lies_on_npus() {
    let _alone = alone();
    let problem = problem();
    let (_home, npus) = npus();
    let world = World::new(WindowLayout::new(&problem).unwrap());
    let body = |window: &mut megamoe_window::Window| {
        let before = window.addresses();
        let device = npus.device(window)?;
        assert_ne!(window.addresses(), before);
        let launch = window.begin()?;
        let mut bytes = [0; 4];
        for result in [
            launch.put(0, Rows::Packed, 0, &bytes),
            launch.get(0, Rows::Packed, 0, &mut bytes),
            launch.notify_set(0, Signal::User(0), 1),
            launch.notify_add(0, Signal::User(0), 1),
            launch.publish_counts(&[0; 4]),
            launch.take_counts(0).map(|_| ()),
        ] {
            assert_eq!(result, Err(WindowError::OnNpu));
        }
        drop(device);
        Ok(())
    };
    world.run_threads(body).unwrap();
}

/// Rank 1 takes part in everything but the launch: rank 0 gives up, and frees nothing that its kernel still uses.
#[test]
fn a_rank_that_does_not_launch_is_waited_for_no_longer_than_allowed() {
    let _alone = alone();
    let (problem, opened) = (problem(), Opened::new());
    let inputs = inputs(&problem);
    {
        let (_home, npus) = npus();
        let deadline = Duration::from_millis(300);
        let world = World::new(WindowLayout::new(&problem).unwrap()).with_deadline(deadline);
        let body = |window: &mut megamoe_window::Window| {
            let rank = window.rank();
            let mine = &inputs[rank as usize];
            let device = npus.device(window)?;
            let mut layer = MegaMoe::builder(&problem)
                .device(&device)
                .build(window, &mine.weights)?;
            if rank == 0 {
                let error = layer.run(mine).unwrap_err();
                let LayerError::Device(DeviceError::Deadline { waited, report }) = &error else {
                    panic!("{error}");
                };
                assert_eq!(*waited, deadline);
                for part in ["rank 0", "megamoe_fused_silu", "NPU 0"] {
                    assert!(report.contains(part), "{report}");
                }
                let before = opened.report().live["memory"];
                drop(layer);
                assert_eq!(
                    opened.report().live["memory"],
                    before,
                    "its kernel still runs"
                );
            } else {
                std::thread::sleep(2 * deadline);
            }
            Ok(())
        };
        world.run_threads(body).unwrap();
    }
    assert!(opened.report().is_clean(), "{:?}", opened.report());
}

/// A rank that fails ends the others' waits long before their time is over, with its reason.
#[test]
fn a_rank_that_fails_is_named_by_those_that_wait_for_it() {
    let _alone = alone();
    let (problem, opened) = (problem(), Opened::new());
    let inputs = inputs(&problem);
    {
        let (_home, npus) = npus();
        let world = World::new(WindowLayout::new(&problem).unwrap());
        let seen = Arc::new(Mutex::new(String::new()));
        let body = |window: &mut megamoe_window::Window| -> Result<(), _> {
            let rank = window.rank();
            let device = npus.device(window)?;
            if rank == 1 {
                return Err("no more".into());
            }
            let mine = &inputs[rank as usize];
            let mut layer = MegaMoe::builder(&problem)
                .device(&device)
                .build(window, &mine.weights)?;
            let error = layer.run(mine).unwrap_err();
            *seen.lock().unwrap() = error.to_string();
            Err(error.into())
        };
        let error = world.run_threads(body).unwrap_err().to_string();
        assert!(error.contains("rank 1 failed: no more"), "{error}");
        let seen = seen.lock().unwrap().clone();
        assert!(
            seen.contains("rank 1 failed: no more") && seen.contains("megamoe_fused_silu"),
            "{seen}"
        );
    }
    assert!(opened.report().is_clean(), "{:?}", opened.report());
}
