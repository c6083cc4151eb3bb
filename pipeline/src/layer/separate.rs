//! A launch as one kernel for each stage, one after the other.

use std::time::{Duration, Instant};

use megamoe_device::{Device, DeviceError, PlannedStage};
use moe_core::{Slot, StageKind};

use super::buffers::Buffers;
use super::report::LaunchTimes;
use super::stages::LayerPlan;

/// Runs every stage to its end; the time each took.
pub(super) fn run(
    device: &dyn Device,
    plan: &LayerPlan,
    buffers: &Buffers,
) -> Result<LaunchTimes, DeviceError> {
    let mut runner = Runner {
        device,
        times: Vec::new(),
    };
    runner.run(&plan.front, &buffers.front_io())?;
    runner.run(&plan.dispatch, &buffers.dispatch_io())?;
    runner.run(&plan.gmm1, &buffers.gmm1_io())?;
    runner.run(&plan.swiglu, &buffers.swiglu_io())?;
    runner.run(&plan.gmm2, &buffers.gmm2_io())?;
    runner.run(&plan.combine, &buffers.combine_io())?;
    runner.run(&plan.unpermute, &buffers.unpermute_io())?;
    Ok(LaunchTimes::separate(&runner.times))
}

struct Runner<'a> {
    device: &'a dyn Device,
    times: Vec<(StageKind, Option<Duration>, Duration)>,
}

impl Runner<'_> {
    fn run<S: Slot>(&mut self, stage: &PlannedStage<S>, io: &S::Io) -> Result<(), DeviceError> {
        let start = Instant::now();
        // SAFETY: the buffers have the sizes of the problem and rank that the stage was planned for, and
        // outlive the run.
        unsafe { stage.run(self.device, io) }?;
        self.times
            .push((S::KIND, self.device.launch_time(), start.elapsed()));
        Ok(())
    }
}
