//! Where a rank's stages run, and its launches there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bisheng_sys::Cann;
use megamoe_device::{Device, Executor};
use megamoe_pipeline::layer::{LaunchReport, MegaMoe, virtual_device};
use megamoe_pipeline::npu::{self, NpuError, Npus};
use megamoe_pipeline::rank;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::Window;
use megamoe_window::world::BoxError;
use moe_core::{Problem, RankInputs, Soc};

use super::CliError;
use super::ranks::{DeviceKind, RankRun, StageSet, WorldArgs};
use super::report::StageSeconds;

/// The devices of the ranks that this process runs.
pub(super) enum Devices {
    /// Virtual ones, on a common executor.
    Virtual(Soc, Arc<Executor>),
    /// NPUs.
    Npus(Npus),
}

impl Devices {
    /// Those of `num_ranks` ranks of this process.
    pub(super) fn of(
        args: &WorldArgs,
        problem: &Problem,
        num_ranks: usize,
    ) -> Result<Self, CliError> {
        if args.device == DeviceKind::Ascend {
            let kernels = npu::kernel_library()?;
            let cann = Cann::load().map_err(NpuError::from)?;
            return Ok(Self::Npus(Npus::start(&cann, &kernels)?));
        }
        let executor = args.executor(num_ranks, problem.num_ranks())?;
        Ok(Self::Virtual(args.soc()?, executor))
    }

    /// The device of a window's rank.
    fn of_rank(&self, window: &mut Window) -> Result<Box<dyn Device>, BoxError> {
        Ok(match self {
            Self::Virtual(soc, executor) => {
                Box::new(virtual_device(soc.clone(), window, Arc::clone(executor)))
            }
            Self::Npus(npus) => Box::new(npus.device(window)?),
        })
    }
}

/// Where a rank's stages run.
pub(super) struct RankPlace<'a> {
    pub(super) args: &'a WorldArgs,
    pub(super) problem: &'a Problem,
    pub(super) devices: &'a Devices,
}

/// What a launch gave beside its output.
#[derive(Default)]
struct Launched {
    stage_times: Vec<StageSeconds>,
    report: Option<LaunchReport>,
}

impl RankPlace<'_> {
    /// Runs every launch of one rank.
    pub(super) fn run(
        &self,
        window: &mut Window,
        inputs: &RankInputs,
        launched: &dyn Fn(),
    ) -> Result<RankRun, BoxError> {
        match self.args.stages {
            StageSet::Oracle => self.run_oracles(window, inputs, launched),
            StageSet::Fused | StageSet::Separate => self.run_layer(window, inputs, launched),
        }
    }

    fn run_oracles(
        &self,
        window: &mut Window,
        inputs: &RankInputs,
        launched: &dyn Fn(),
    ) -> Result<RankRun, BoxError> {
        let mut run = RankRun::default();
        for number in 0..self.args.num_launches() {
            window.barrier()?;
            let start = Instant::now();
            let activation = ActivationOptions::default();
            let output = rank::launch(self.problem, window, inputs, activation)?;
            let times = output.stage_times.iter();
            let stage_times = times
                .map(|(_, time)| StageSeconds::of_span(*time))
                .collect();
            let launch = Launched {
                stage_times,
                report: None,
            };
            self.note(&mut run, number, start.elapsed(), launch)?;
            run.out = output.out;
            launched();
        }
        Ok(run)
    }

    fn run_layer(
        &self,
        window: &mut Window,
        inputs: &RankInputs,
        launched: &dyn Fn(),
    ) -> Result<RankRun, BoxError> {
        let device = self.devices.of_rank(window)?;
        let mut layer = MegaMoe::builder(self.problem)
            .device(device.as_ref())
            .schedule(self.args.schedule(device.soc(), self.problem)?)
            .separate(self.args.stages == StageSet::Separate)
            .allow_drop(self.args.allow_drop)
            .build(window, &inputs.weights)?;
        let mut run = RankRun::default();
        for number in 0..self.args.num_launches() {
            layer.window().barrier()?;
            let start = Instant::now();
            let report = layer.run(inputs)?;
            let time = report.device_time.unwrap_or_else(|| start.elapsed());
            let launch = Launched {
                stage_times: report.stage_times.iter().map(StageSeconds::of).collect(),
                report: Some(report),
            };
            self.note(&mut run, number, time, launch)?;
            launched();
        }
        run.out = layer.output()?;
        Ok(run)
    }

    /// Adds a launch to a run.
    fn note(
        &self,
        run: &mut RankRun,
        number: u32,
        time: Duration,
        launch: Launched,
    ) -> Result<(), BoxError> {
        if super::run::interrupt_flag().load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        if number >= self.args.warmup {
            run.launch_seconds.push(time.as_secs_f64());
            run.stage_times.push(launch.stage_times);
        }
        if let Some(report) = launch.report {
            run.dropped = report.dropped;
            run.peer_waits = report
                .peer_waits
                .iter()
                .map(Duration::as_secs_f64)
                .collect();
            run.cores = report.cores;
        }
        Ok(())
    }
}
