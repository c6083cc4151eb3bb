//! CANN's C ABI: the runtime (ACL) and the communication library (HCCL), as far as MegaMoE uses them.
//!
//! Nothing is linked. [`Cann::load`] opens the libraries when it is called, and says what it looked for and where when
//! they are not there. Above it, a safe layer owns what CANN makes; each value keeps what it depends on alive:
//!
//! ```text
//! Cann <- Runtime <- Context <- Stream, Event, DeviceMemory
//!                            <- Communicator -> RemoteWindows
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`bindings`] | what bindgen makes of CANN's headers |
//! | [`home`] | where CANN is installed |
//! | [`library`] | its libraries, opened at run time |
//! | [`error`] | what a call failed with: its name, the code's name, CANN's own words |
//! | [`runtime`] | start and end of the runtime, devices |
//! | [`stream`] | streams and events |
//! | [`memory`] | device memory |
//! | [`comm`] | communicators, and the windows of their ranks |
//!
//! Bindings are made by bindgen from `include/*.h`; a copy is checked in, so that neither CANN nor libclang is needed.
//! None of this has run against a genuine CANN: tests run it against a stand-in of the same ABI.
#![deny(missing_docs)]

pub mod bindings;
pub mod comm;
pub mod error;
pub mod home;
pub mod library;
pub mod memory;
pub mod runtime;
pub mod stream;

pub use comm::{Communicator, RemoteWindows, RootInfo};
pub use error::CannError;
pub use home::{CannHome, NoCann};
pub use library::{Cann, LoadError};
pub use memory::DeviceMemory;
pub use runtime::{Context, Cores, Runtime};
pub use stream::{Event, Stream};
