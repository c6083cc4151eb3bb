//! Where kernels run.
//!
//! A kernel is C++ on the PTO tile API. The headers in `include/` implement that API for the host: thin
//! types, whose instructions call this crate. The **virtual device** runs a kernel once on every logical
//! core; cores are coroutines on few threads, with on-chip memories of their own.
//!
//! | module | holds |
//! |---|---|
//! | [`device`] | the [`Device`] trait, kernels, errors |
//! | [`stage`] | stages on a device: a plan and a kernel make a launch |
//! | [`transfer`] | values to global memory and back |
//! | [`virtual_device`] | the device that runs on the host |
//! | [`ascend`] | an NPU |
//! | [`checked`] | checked mode: memory, races, initialisation, flags |
//! | [`compute`] | its arithmetic, in portable Rust and with vector units |
//!
//! `docs/pto-host.md` lists every instruction, what it means here and where it is tested.
#![deny(missing_docs)]

mod abi;
pub mod ascend;
pub mod checked;
pub mod compute;
pub mod device;
mod runtime;
pub mod stage;
pub mod transfer;
pub mod virtual_device;

pub use abi::types::Round;
pub use ascend::{AscendDevice, KernelLibrary};
pub use checked::Checker;
pub use device::{Buffer, Device, DeviceError, Kernel, KernelCores, KernelEntry, SharedBytes};
pub use runtime::executor::{Executor, ExecutorOptions};
pub use stage::{PlannedStage, RunStage};
pub use transfer::{download, upload, view};
pub use virtual_device::VirtualDevice;
