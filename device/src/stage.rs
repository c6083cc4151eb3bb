//! Stages on a device: a plan and a kernel make a launch.

use std::marker::PhantomData;

use bytemuck::bytes_of;
use moe_core::{KernelSource, Plan, PlanError, Problem, Slot, Soc, Stage};

use crate::device::{Buffer, Device, DeviceError, Kernel};
use crate::transfer::upload;

/// A stage with device code that this process can run.
pub trait RunStage: Stage {
    /// Its stand-alone kernel: takes the tiling, then the slot's views.
    fn kernel(&self) -> Kernel;
}

/// A stage that is planned for one problem, rank and SoC. The type of the stage is gone; its slot, and so
/// its views, are not: a stage can't be put into another's place.
#[derive(Clone, Debug)]
pub struct PlannedStage<S: Slot> {
    name: &'static str,
    source: KernelSource,
    kernel: Kernel,
    tiling: Vec<u8>,
    workspace_bytes: u64,
    num_blocks: u32,
    slot: PhantomData<S>,
}

impl<S: Slot> PlannedStage<S> {
    /// Plans a stage.
    ///
    /// # Errors
    /// As [`Stage::plan`].
    pub fn new<T: RunStage<Slot = S>>(
        stage: &T,
        problem: &Problem,
        rank: u32,
        soc: &Soc,
    ) -> Result<Self, PlanError> {
        Ok(Self::of(stage, &stage.plan(problem, rank, soc)?))
    }

    /// A stage with a plan of one's own.
    #[must_use]
    pub fn of<T: RunStage<Slot = S>>(stage: &T, plan: &Plan<T::Tiling>) -> Self {
        const {
            assert!(
                size_of::<T::Tiling>() % 8 == 0,
                "the views behind a tiling are aligned to 8 bytes"
            );
        }
        Self {
            name: stage.name(),
            source: stage.kernel_source(),
            kernel: stage.kernel(),
            tiling: bytes_of(&plan.tiling).to_vec(),
            workspace_bytes: plan.workspace_bytes,
            num_blocks: plan.num_blocks,
            slot: PhantomData,
        }
    }

    /// Name of the stage.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The class that reads its arguments.
    #[must_use]
    pub fn kernel_source(&self) -> KernelSource {
        self.source
    }

    /// What device code takes, `StageArgs` in C++: the tiling, then the views.
    #[must_use]
    pub fn arguments(&self, io: &S::Io) -> Vec<u8> {
        [&self.tiling, bytes_of(io)].concat()
    }

    /// Bytes of scratch that its views must point to.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Physical cores that it runs on.
    #[must_use]
    pub fn num_blocks(&self) -> u32 {
        self.num_blocks
    }

    /// Starts it. The launch's arguments live in the value that is returned: keep it until the device has
    /// been synchronised.
    ///
    /// # Safety
    /// The views are those of the problem and rank that the stage was planned for, and stay valid until
    /// the device has been synchronised.
    ///
    /// # Errors
    /// As [`Device::launch`].
    pub unsafe fn launch(
        &self,
        device: &dyn Device,
        io: &S::Io,
    ) -> Result<Box<dyn Buffer>, DeviceError> {
        let args = upload(device, &self.arguments(io))?;
        // SAFETY: the kernel takes the tiling and the views, which the caller vouches for.
        unsafe { device.launch(&self.kernel, self.num_blocks, args.address())? };
        Ok(args)
    }

    /// Runs it to the end.
    ///
    /// # Safety
    /// As for [`Self::launch`].
    ///
    /// # Errors
    /// As [`Device::launch`] and [`Device::synchronize`].
    pub unsafe fn run(&self, device: &dyn Device, io: &S::Io) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises; the arguments live until the launch has ended.
        let _args = unsafe { self.launch(device, io)? };
        device.synchronize()
    }
}
