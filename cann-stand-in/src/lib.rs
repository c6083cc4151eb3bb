//! CANN's C ABI, as far as bisheng-sys binds it, on host memory and the virtual device: so that all that runs on NPUs
//! but the kernels' machine code runs in tests.
//!
//! It is stricter than CANN: it knows every allocation, and refuses copies that are not inside one; it fills new memory
//! and windows with a pattern; it counts what is alive. Like CANN it is one library with state of its own; what it is
//! to do otherwise is said by its environment when it is opened, or by the functions of [`control`]:
//!
//! | variable | meaning |
//! |---|---|
//! | `CANN_STAND_IN_FAIL` | `function:nth:code`: that call of that function fails |
//! | `CANN_STAND_IN_SOC` | name of the SoC \[default: `Ascend910B1`\] |
//! | `CANN_STAND_IN_NPUS` | number of NPUs \[default: 16\] |
//! | `CANN_STAND_IN_TOPOLOGY` | `mesh` or `ring`: how HCCL answers for windows \[default: mesh\] |
//! | `CANN_STAND_IN_REPORT` | folder where every process writes what is left when its runtime ends |
//! | `HCCL_CONNECT_TIMEOUT` | seconds that a rank waits for the others \[default: 120\] |
//!
//! | module | holds |
//! |---|---|
//! | [`acl`] | the runtime's functions |
//! | [`hccl`] | HCCL's functions |
//! | [`kernels`] | `launch_{kernel}` for every kernel of the layer |
//! | [`control`] | faults and counts, for tests |
#![deny(missing_docs)]

pub mod acl;
pub mod control;
mod group;
pub mod hccl;
pub mod kernels;
mod memory;
mod settings;
mod state;
mod stream;
