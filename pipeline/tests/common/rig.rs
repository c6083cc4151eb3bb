//! A world of layers on virtual devices: who runs what, with which data, checked against the oracles.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{Executor, ExecutorOptions, VirtualDevice};
use megamoe_front_reorder::Path;
use megamoe_pipeline::layer::{Intermediates, LayerStages, MegaMoe, planner, virtual_device};
use megamoe_pipeline::reference;
use megamoe_pipeline::schedule::{CombinePath, Schedule};
use megamoe_pipeline::verify::Comparison;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::window::Rows;
use megamoe_window::{Region, Window, WindowError, WindowLayout, World};
use moe_core::exchange::CountTable;
use moe_core::rng::Rng;
use moe_core::{Problem, RankInputs, Soc};

pub(crate) const PATHS: [Path; 3] = [Path::FullLoad, Path::OneCore, Path::MultiCore];

/// How a world's layers run.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The fused kernel's; stages as kernels of their own without one.
    pub(crate) schedule: Option<Schedule>,
    pub(crate) path: Option<Path>,
    pub(crate) small_combine: bool,
    pub(crate) cores: u32,
    pub(crate) seed: Option<u64>,
    /// Devices launch together, so that a seed decides everything; else ranks may run ahead.
    pub(crate) in_step: bool,
    pub(crate) launches: u32,
}

impl Setup {
    pub(crate) const SEPARATE: Self = Self {
        schedule: None,
        path: None,
        small_combine: false,
        cores: 2,
        seed: None,
        in_step: true,
        launches: 1,
    };

    pub(crate) fn fused(schedule: Schedule) -> Self {
        Self {
            schedule: Some(schedule),
            ..Self::SEPARATE
        }
    }

    /// Separate stages, then the fused kernel on each preset.
    pub(crate) fn every() -> Vec<Self> {
        let fused = Schedule::PRESETS.map(|(name, _)| Self::fused(Schedule::named(name).unwrap()));
        [vec![Self::SEPARATE], fused.to_vec()].concat()
    }

    pub(crate) fn soc(&self) -> Soc {
        let mut soc = Soc::named("Ascend910B1").unwrap();
        soc.num_aic = self.cores;
        soc
    }

    pub(crate) fn executor(&self, num_ranks: usize) -> Arc<Executor> {
        let options = ExecutorOptions {
            seed: self.seed,
            num_devices: if self.in_step { num_ranks } else { 1 },
            has_outside_peers: !self.in_step,
            poison: true,
            ..ExecutorOptions::default()
        };
        Arc::new(Executor::new(options).unwrap())
    }

    pub(crate) fn stages(&self) -> LayerStages {
        let mut stages = LayerStages::standard(ActivationOptions::default(), CombinePath::Auto);
        if let Some(path) = self.path {
            stages.front = Box::new(move |problem, rank, soc| {
                megamoe_front_reorder::planned(path, problem, rank, soc)
            });
        }
        stages.combine = if self.small_combine {
            planner(DirectSmall)
        } else {
            planner(DirectLarge)
        };
        stages
    }

    /// This rank's device.
    pub(crate) fn device(&self, window: &Window, executor: &Arc<Executor>) -> VirtualDevice {
        virtual_device(self.soc(), window, Arc::clone(executor))
    }

    /// This rank's layer.
    pub(crate) fn layer<'a>(
        &self,
        problem: &'a Problem,
        window: &'a mut Window,
        device: &'a VirtualDevice,
        inputs: &RankInputs,
    ) -> MegaMoe<'a> {
        let builder = MegaMoe::builder(problem)
            .device(device)
            .stages(self.stages())
            .allow_drop(true);
        let builder = match &self.schedule {
            Some(schedule) => builder.schedule(schedule.clone()),
            None => builder.separate(true),
        };
        builder
            .build(window, &inputs.weights)
            .unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

/// Runs the world and checks what every stage left at every rank; the outputs.
pub(crate) fn run(problem: &Problem, inputs: &[RankInputs], setup: &Setup) -> Vec<Vec<u16>> {
    let executor = setup.executor(inputs.len());
    let counts = CountTable::from_ids(problem, inputs.iter().map(|i| i.topk_ids.as_slice()));
    let world = World::new(WindowLayout::new(problem).unwrap());
    let outputs = world.run_threads(|window| {
        let rank = window.rank();
        let device = setup.device(window, &executor);
        let mine = &inputs[rank as usize];
        let mut layer = setup.layer(problem, window, &device, mine);
        for _ in 0..setup.launches {
            poison(layer.window())?;
            layer.run(mine)?;
        }
        check_intermediates(problem, rank, inputs, &counts, &layer.intermediates()?);
        Ok(layer.output()?)
    });
    outputs.unwrap_or_else(|error| panic!("{setup:?}: {error}"))
}

/// Fills this rank's rows with NaNs: whoever reads a row that nobody wrote in this launch shows it.
pub(crate) fn poison(window: &mut Window) -> Result<(), WindowError> {
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
    got: &Intermediates,
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

/// The world's outputs are the oracle's.
pub(crate) fn check(problem: &Problem, inputs: &[RankInputs], setup: &Setup) {
    let want = reference::run(problem, inputs, ActivationOptions::default()).out;
    check_against(problem, inputs, setup, &want);
}

/// The world's outputs are these.
pub(crate) fn check_against(
    problem: &Problem,
    inputs: &[RankInputs],
    setup: &Setup,
    want: &[Vec<u16>],
) {
    let got = run(problem, inputs, setup);
    let comparison = Comparison::of(problem.output_type(), problem.hidden(), &got, want);
    assert!(
        comparison.num_bit_equal == comparison.num_elements,
        "{setup:?}: {comparison:?}"
    );
}

/// Some routes without an expert, some tokens that name one expert twice, some experts that many name.
pub(crate) fn skew(inputs: &mut [RankInputs], seed: u64) {
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
