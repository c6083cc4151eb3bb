//! The layer on NPUs: the kernels that it needs, and the device and window of each rank.
//!
//! ```no_run
//! # fn run(window: &mut megamoe_window::Window, problem: &moe_core::Problem, inputs: &moe_core::RankInputs)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use bisheng_sys::Cann;
//! use megamoe_pipeline::layer::MegaMoe;
//! use megamoe_pipeline::npu::{self, Npus};
//!
//! let npus = Npus::start(&Cann::load()?, &npu::kernel_library()?)?;
//! let device = npus.device(window)?; // moves the window onto the NPU: every rank does so
//! let mut layer = MegaMoe::builder(problem).device(&device).build(window, &inputs.weights)?;
//! layer.run(inputs)?;
//! # Ok(())
//! # }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bisheng_sys::{Cann, CannError, Context, LoadError, Runtime};
use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{AscendDevice, DeviceError, Kernel, KernelLibrary, RunStage};
use megamoe_dispatch::Dispatch;
use megamoe_front_reorder::{FullLoad, MultiCore, OneCore};
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::Activation;
use megamoe_unpermute::Unpermute;
use megamoe_window::{HcclError, Window};

use crate::layer::FusedKernel;

/// Names a library of kernels in place of the one that this crate was built with.
pub const KERNELS_VARIABLE: &str = "MEGAMOE_NPU_KERNELS";

/// NPUs that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum NpuError {
    /// No kernels for them.
    #[error(
        "this build has no kernels for NPUs: build it with --features ascend where CANN is installed, or set \
         {KERNELS_VARIABLE} to a library of them"
    )]
    NoKernels,
    /// CANN is not there.
    #[error(transparent)]
    NoCann(#[from] LoadError),
    /// CANN failed.
    #[error(transparent)]
    Cann(#[from] CannError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Windows can't be had.
    #[error(transparent)]
    Hccl(#[from] HcclError),
    /// More ranks than NPUs.
    #[error("rank {rank} needs an NPU of its own, but this machine has {num_npus}")]
    TooFew {
        /// The rank.
        rank: u32,
        /// NPUs that there are.
        num_npus: u32,
    },
}

/// Every kernel of the standard layer, fused and stage by stage.
#[must_use]
pub fn kernels() -> Vec<Kernel> {
    let fronts = [FullLoad.kernel(), OneCore.kernel(), MultiCore.kernel()];
    let swiglus = Swiglu::all().into_iter().map(|swiglu| swiglu.kernel());
    let activations = [Activation::Silu, Activation::Gelu];
    let fused = activations.map(|activation| FusedKernel::standard(activation).kernel());
    let others = [
        Dispatch.kernel(),
        Gmm1::default().kernel(),
        Gmm2::default().kernel(),
        DirectLarge.kernel(),
        DirectSmall.kernel(),
        Unpermute.kernel(),
    ];
    let mut all: Vec<Kernel> = others
        .into_iter()
        .chain(fronts)
        .chain(swiglus)
        .chain(fused)
        .collect();
    all.sort_by_key(|kernel| kernel.name);
    all.dedup_by_key(|kernel| kernel.name);
    all
}

/// The library of kernels: the one that the environment names, or else the one of this build.
///
/// # Errors
/// [`NpuError::NoKernels`] when there is neither.
pub fn kernel_library() -> Result<PathBuf, NpuError> {
    let named = std::env::var_os(KERNELS_VARIABLE).map(PathBuf::from);
    let built = || option_env!("MEGAMOE_NPU_KERNELS").map(PathBuf::from);
    named.or_else(built).ok_or(NpuError::NoKernels)
}

/// The NPUs of this machine, in use by this process. Ranks that are its threads share it.
#[derive(Debug)]
pub struct Npus {
    // Before the runtime, to which its end hands device code back.
    kernels: Arc<KernelLibrary>,
    runtime: Arc<Runtime>,
}

impl Npus {
    /// Starts CANN's runtime and opens a library of kernels.
    ///
    /// # Errors
    /// [`NpuError`] says what is missing.
    pub fn start(cann: &Arc<Cann>, kernels: &Path) -> Result<Self, NpuError> {
        let runtime = Runtime::start(cann)?;
        Ok(Self {
            kernels: KernelLibrary::open(kernels)?,
            runtime,
        })
    }

    /// The runtime.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The device of a window's rank, which is the NPU of that number, with the world's windows moved onto the NPUs.
    /// All ranks do so together.
    ///
    /// # Errors
    /// [`NpuError`] names the call that failed, or what is too small or too few.
    pub fn device(&self, window: &mut Window) -> Result<AscendDevice, NpuError> {
        let (rank, num_npus) = (window.rank(), self.runtime.num_devices()?);
        if rank >= num_npus {
            return Err(NpuError::TooFew { rank, num_npus });
        }
        let context = Context::open(&self.runtime, rank)?;
        let device = AscendDevice::new(&context, rank, &self.kernels, window.deadline())?
            .with_peer_failure(window.failure_probe());
        window.move_to_npu(&context)?;
        Ok(device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_once() {
        let names: Vec<_> = kernels().iter().map(|kernel| kernel.name).collect();
        for name in [
            "megamoe_gmm",
            "megamoe_combine",
            "megamoe_front_multi_core",
            "megamoe_fused_gelu",
        ] {
            assert_eq!(
                names.iter().filter(|&&other| other == name).count(),
                1,
                "{name} in {names:?}"
            );
        }
    }
}
