//! Kernels that show and test the virtual device.
//!
//! | kernel | shows |
//! |---|---|
//! | [`VECTOR`], [`CONVERT`], [`SORT`], [`MATMUL`] | one instruction at a time, for conformance tests |
//! | [`GEMM_SCALE`] | a matrix core that hands tiles to vector cores through signals |
//! | [`EMPTY`] | what a launch costs |
//! | [`DEADLOCK`], [`OUT_OF_BOUNDS`], [`MISALIGNED`], [`UNSET_FLAG`], [`LEFT_FLAG`] | faults, and what the device says to them |
//! | [`corpus`] | kernels with a fault each, for checked mode, and kernels without |
//! | [`WHO`], [`CROSS_FLAGS`], [`BARRIERS`], [`ORDER`] | roles and synchronisation |
#![deny(missing_docs)]

mod args;
pub mod corpus;

use bytemuck::Pod;
use megamoe_device::{Device, DeviceError, Kernel, upload};

pub use args::{ConformanceArgs, CorpusArgs, GemmArgs};

macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident = $symbol:ident on $cores:ident;)*) => {
        $($(#[$doc])* pub const $name: Kernel = megamoe_device::kernel!($symbol, $cores);)*
    };
}

kernels! {
    /// Elementwise instructions and row maximum.
    VECTOR = example_vector on Aiv;
    /// `TCVT`.
    CONVERT = example_convert on Aiv;
    /// `TSORT32`, `TMRGSORT`, `TGATHER`.
    SORT = example_sort on Aiv;
    /// One tile through L1, L0 and the fixpipe.
    MATMUL = example_matmul on Aic;
    /// Matmul on matrix cores, row scaling on vector cores.
    GEMM_SCALE = example_gemm_scale on Mix;
    /// Nothing.
    EMPTY = example_empty on Mix;
    /// Vector cores wait for a signal that nobody gives.
    DEADLOCK = example_deadlock on Aiv;
    /// A tile past the end of UB.
    OUT_OF_BOUNDS = example_out_of_bounds on Aiv;
    /// A tile at an address that is no multiple of 32.
    MISALIGNED = example_misaligned on Aiv;
    /// A wait for a flag that was never set.
    UNSET_FLAG = example_unset_flag on Aiv;
    /// A flag that nobody waits for.
    LEFT_FLAG = example_left_flag on Aiv;
    /// Every core writes who it is.
    WHO = example_who on Mix;
    /// Cores of a physical core take turns by cross-core flags.
    CROSS_FLAGS = example_cross_flags on Mix;
    /// Cores write their numbers in the order of the schedule. For one worker.
    ORDER = example_order on Aiv;
    /// Rounds of barriers.
    BARRIERS = example_barriers on Mix;
}

/// Runs a kernel and waits for it. `args` is copied to global memory first.
///
/// # Safety
/// The kernel takes `args`, and the buffers that it refers to are large enough for it.
///
/// # Errors
/// As [`Device::launch`] and [`Device::synchronize`].
pub unsafe fn run<T: Pod>(
    device: &dyn Device,
    kernel: &Kernel,
    num_blocks: u32,
    args: &T,
) -> Result<(), DeviceError> {
    let args = upload(device, std::slice::from_ref(args))?;
    // SAFETY: as the caller promises; the arguments live until the launch has ended.
    unsafe { device.launch(kernel, num_blocks, args.address())? };
    device.synchronize()
}
