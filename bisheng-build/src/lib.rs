//! What a crate's `build.rs` needs so that its device code and its Rust agree.
//!
//! * [`Headers`] writes C++ headers from Rust sources: `#[repr(C)]` structs, fieldless `#[repr(u8)]`
//!   enums and integer constants are declared once, in Rust.
//! * [`Kernels`] compiles a crate's `kernel/` folder with the host's C++ compiler and links it.
//!
//! * [`FusedKernel`] builds a kernel of the whole layer from stage classes.
//! * [`stage`] does the first two for a stage crate.
//! * [`NpuKernels`] compiles kernels for the NPU, with CANN's `bisheng`.
//!
//! A crate with device code names itself in `links`; the folders of its headers reach the build scripts
//! of the crates that depend on it through cargo.
#![deny(missing_docs)]

mod bisheng;
mod checked;
mod compile;
mod fused;
mod header;
mod parse;

pub use bisheng::{Bisheng, NoBisheng, NpuKernels};
pub use checked::checked_library;
pub use compile::{BuildError, Headers, Kernels, compile_support, include_folders, stage};
pub use fused::{FusedKernel, Slot};
pub use header::{HeaderError, cpp_header};
