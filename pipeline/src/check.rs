//! Launches of all ranks in checked mode ([`megamoe_device::checked`]): one checker sees every core of every rank, and
//! all windows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use megamoe_device::checked::{CheckedKernels, Verdict, WriterOf};
use megamoe_device::{Checker, DeviceError, Executor, ExecutorOptions};
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::{Region, Window, WindowLayout, WindowSizeError, World};
use moe_core::{Problem, RankInputs, Soc};

use crate::layer::{LayerStages, MegaMoe, virtual_device};
use crate::schedule::Schedule;

/// Makes the stages of a layer.
pub type MakeStages = Arc<dyn Fn() -> LayerStages + Send + Sync>;

/// How the layer runs under the checks.
#[derive(Clone)]
pub struct CheckOptions {
    /// The device that is imitated: its memories and its cores.
    pub soc: Soc,
    /// Schedule of the fused kernel; none for stages as kernels of their own.
    pub schedule: Option<Schedule>,
    /// Stages of one's own choice; none for the standard ones.
    pub stages: Option<MakeStages>,
    /// The activation that the fused kernel has.
    pub activation: ActivationOptions,
    /// Kernels in place of those that are linked.
    pub kernels: Option<Arc<CheckedKernels>>,
    /// Decides the order in which cores run.
    pub seed: u64,
    /// Launches on the same layer, with nothing cleared between.
    pub launches: u32,
    /// Routes may be dropped.
    pub allow_drop: bool,
    /// Longest wait of a core.
    pub deadline: Duration,
}

impl std::fmt::Debug for CheckOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckOptions")
            .field("soc", &self.soc.name)
            .field("seed", &self.seed)
            .field("launches", &self.launches)
            .finish_non_exhaustive()
    }
}

impl CheckOptions {
    /// Of an NPU with few cores, on the standard layer: one launch after another.
    #[must_use]
    pub fn new(soc: Soc, schedule: Option<Schedule>) -> Self {
        Self {
            soc,
            schedule,
            stages: None,
            activation: ActivationOptions::default(),
            kernels: None,
            seed: 0,
            launches: 2,
            allow_drop: false,
            deadline: Duration::from_secs(60),
        }
    }
}

/// What a checked run came to.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What was found.
    pub verdict: Verdict,
    /// Why a launch ended early, if one did: a finding of its own.
    pub error: Option<String>,
    /// Output of each rank's last launch; empty where a launch ended early.
    pub out: Vec<Vec<u16>>,
    /// Time of all launches.
    pub time: Duration,
}

impl Checked {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.error.is_none() && self.verdict.findings.is_empty()
    }
}

/// A checked run that can't be started.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// No executor.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No windows.
    #[error(transparent)]
    Window(#[from] WindowSizeError),
}

/// Runs all ranks; `inputs` holds one entry for each.
///
/// # Errors
/// [`CheckError`] when nothing could be run. What goes wrong in a launch is part of the result.
pub fn check(
    problem: &Problem,
    inputs: &[RankInputs],
    options: &CheckOptions,
) -> Result<Checked, CheckError> {
    let checker = Checker::new();
    let layout = WindowLayout::new(problem)?;
    let executor = Arc::new(Executor::new(ExecutorOptions {
        seed: Some(options.seed),
        num_devices: inputs.len(),
        deadline: options.deadline,
        poison: true,
        ..ExecutorOptions::default()
    })?);
    let start = Instant::now();
    let world = World::new(layout).with_deadline(options.deadline);
    let out = world.run_threads(|window| {
        if window.rank() == 0 {
            add_windows(&checker, window);
        }
        window.barrier()?;
        let inputs = &inputs[window.rank() as usize];
        let device = virtual_device(options.soc.clone(), window, Arc::clone(&executor));
        let mut device = device.with_checker(&checker);
        if let Some(kernels) = &options.kernels {
            device = device.with_checked_kernels(kernels);
        }
        let mut builder = MegaMoe::builder(problem)
            .device(&device)
            .activation(options.activation)
            .separate(options.schedule.is_none())
            .allow_drop(options.allow_drop);
        if let Some(schedule) = &options.schedule {
            builder = builder.schedule(schedule.clone());
        }
        if let Some(stages) = &options.stages {
            builder = builder.stages(stages());
        }
        let mut layer = builder.build(window, &inputs.weights)?;
        for _ in 0..options.launches {
            layer.run(inputs)?;
        }
        Ok(layer.output()?)
    });
    let time = start.elapsed();
    let (out, error) = match out {
        Ok(out) => (out, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Ok(Checked {
        verdict: checker.finish(),
        error,
        out,
        time,
    })
}

/// The windows of all ranks, which are threads of this process and see them at the same addresses.
fn add_windows(checker: &Checker, window: &Window) {
    let layout = *window.layout();
    for (rank, start) in (0..).zip(window.addresses()) {
        let writer_of: WriterOf = Arc::new(move |offset| writer(&layout, rank, offset));
        checker.add_window(start..start + layout.required_bytes(), rank, writer_of);
    }
}

/// The rank that writes at an offset of `owner`'s window, where that is fixed.
fn writer(layout: &WindowLayout, owner: u32, offset: u64) -> Option<u32> {
    /// The host's, and so no kernel's.
    const NOBODY: u32 = u32::MAX;
    let (region, index) = layout.item_at(offset)?;
    match region {
        Region::PackedRows => Some(owner),
        Region::Control | Region::Barrier => Some(NOBODY),
        _ => layout.writer_of(region, index),
    }
}
