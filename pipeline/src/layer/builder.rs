//! How a layer is put together.

use std::sync::Arc;

use megamoe_device::{Device, Executor, ExecutorOptions, VirtualDevice};
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::{Window, WindowLayout};
use moe_core::{InputError, InputSizes, Problem, RankWeights, Soc};

use super::buffers::Buffers;
use super::fused::{FusedKernel, FusedLayer};
use super::stages::LayerStages;
use super::{LayerError, MegaMoe};
use crate::schedule::Schedule;

/// A device, the layer's own or one that it shares.
#[derive(Debug)]
pub enum DeviceHandle<'a> {
    /// Its own.
    Owned(Box<dyn Device>),
    /// Another's.
    Borrowed(&'a dyn Device),
}

impl DeviceHandle<'_> {
    /// The device.
    #[must_use]
    pub fn get(&self) -> &dyn Device {
        match self {
            Self::Owned(device) => device.as_ref(),
            Self::Borrowed(device) => *device,
        }
    }
}

/// Choices of a layer; what is not chosen is the standard. [`Builder::build`] checks them.
#[derive(Debug)]
pub struct Builder<'a> {
    problem: &'a Problem,
    device: Option<&'a dyn Device>,
    activation: ActivationOptions,
    stages: Option<LayerStages>,
    schedule: Option<Schedule>,
    kernel: Option<FusedKernel>,
    separate: bool,
    allow_drop: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        Self {
            problem,
            device: None,
            activation: ActivationOptions::default(),
            stages: None,
            schedule: None,
            kernel: None,
            separate: false,
            allow_drop: false,
        }
    }

    /// The device [default: `host`, a virtual device of its own].
    #[must_use]
    pub fn device(mut self, device: &'a dyn Device) -> Self {
        self.device = Some(device);
        self
    }

    /// The activation between the matmuls [default: SiLU without a limit].
    #[must_use]
    pub fn activation(mut self, activation: ActivationOptions) -> Self {
        self.activation = activation;
        self
    }

    /// Stages of one's own [default: the standard ones]; they bring their activation.
    #[must_use]
    pub fn stages(mut self, stages: LayerStages) -> Self {
        self.stages = Some(stages);
        self
    }

    /// The schedule of the fused kernel [default: [`Schedule::default_name`]].
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// A fused kernel with stage classes of one's own [default: the standard one].
    #[must_use]
    pub fn fused_kernel(mut self, kernel: FusedKernel) -> Self {
        self.kernel = Some(kernel);
        self
    }

    /// Runs stages as kernels of their own, one after the other, instead of the fused kernel.
    #[must_use]
    pub fn separate(mut self, separate: bool) -> Self {
        self.separate = separate;
        self
    }

    /// Lets launches succeed that drop routes because `max_output_size` is too small.
    #[must_use]
    pub fn allow_drop(mut self, allow_drop: bool) -> Self {
        self.allow_drop = allow_drop;
        self
    }

    /// Loads the weights and plans the stages.
    ///
    /// # Errors
    /// [`LayerError`] names what does not fit.
    pub fn build(
        self,
        window: &'a mut Window,
        weights: &Arc<RankWeights>,
    ) -> Result<MegaMoe<'a>, LayerError> {
        let (problem, rank) = (self.problem, window.rank());
        check_world(problem, window)?;
        check_weights(problem, rank, weights)?;
        let device = match self.device {
            Some(device) => DeviceHandle::Borrowed(device),
            None => DeviceHandle::Owned(Box::new(own_device(window)?)),
        };
        let soc = device.get().soc();
        let schedule = match self.schedule {
            Some(schedule) => schedule,
            None => Schedule::named(Schedule::default_name(soc))?,
        };
        let stages = self
            .stages
            .unwrap_or_else(|| LayerStages::standard(self.activation, schedule.combine.path));
        let fused = if self.separate {
            None
        } else {
            let kernel = self
                .kernel
                .unwrap_or_else(|| FusedKernel::standard(self.activation.activation));
            let tiling = schedule.resolve(soc, problem.experts_per_rank())?;
            Some(FusedLayer::new(problem, device.get(), kernel, tiling)?)
        };
        let plan = stages.plan(problem, rank, soc)?;
        if let Some(fused) = &fused {
            fused.kernel().check(&plan)?;
        }
        let buffers = Buffers::new(problem, rank, device.get(), weights)?;
        let mut layer = MegaMoe {
            built: problem.clone(),
            problem: problem.clone(),
            window,
            device,
            stages,
            plan,
            buffers,
            fused,
            allow_drop: self.allow_drop,
        };
        layer.grow_workspace()?;
        Ok(layer)
    }
}

/// A host device for one rank.
fn own_device(window: &Window) -> Result<VirtualDevice, LayerError> {
    let options = ExecutorOptions {
        has_outside_peers: window.num_ranks() > 1,
        deadline: window.deadline(),
        ..ExecutorOptions::default()
    };
    let executor = Arc::new(Executor::new(options)?);
    Ok(virtual_device(Soc::named("host")?, window, executor))
}

/// The device of a window's rank: its waits end when a peer fails, and its reports name the peers.
#[must_use]
pub fn virtual_device(soc: Soc, window: &Window, executor: Arc<Executor>) -> VirtualDevice {
    VirtualDevice::new(soc, window.rank(), executor)
        .with_peer_failure(window.failure_probe())
        .with_names(window.names())
}

/// The window was made for this problem, or for one of the same sizes.
fn check_world(problem: &Problem, window: &Window) -> Result<(), LayerError> {
    let want = WindowLayout::new(problem)?;
    if window.layout() == &want {
        return Ok(());
    }
    Err(LayerError::OtherWindow {
        window: window.layout().required_bytes(),
        problem: want.required_bytes(),
    })
}

fn check_weights(problem: &Problem, rank: u32, weights: &RankWeights) -> Result<(), InputError> {
    let sizes = InputSizes::of(problem, rank);
    weights.check(&sizes, rank)
}
