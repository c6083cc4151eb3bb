//! Memory that peers can see: where ranks meet.
//!
//! Every rank owns a **window** and maps those of all ranks. A launch moves packed rows out of and
//! returned rows into windows; counts and signals say what has arrived. The rules that make this right
//! under any interleaving are in `docs/window-protocol.md`; code cites them by number.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`] | regions of a window, their offsets and sizes |
//! | [`map`] | the same for device code, with the addresses of all windows |
//! | [`protocol`] | count-as-flag and signals over atomic words |
//! | [`wait`] | waiting with a deadline that ends in an error which names the peer |
//! | [`window`] | a rank's view of all windows, and launches on it |
//! | [`hccl`] | windows in the memory of NPUs |
//! | [`world`] | starts ranks as threads or processes, or joins a world that `mpirun` started |
#![deny(missing_docs)]

pub mod layout;
pub mod map;
pub mod protocol;
mod sync;

#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
pub mod hccl;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
pub mod wait;
#[cfg(not(loom))]
pub mod window;
#[cfg(not(loom))]
pub mod world;

#[cfg(not(loom))]
pub use hccl::HcclError;
pub use layout::{Region, WindowLayout, WindowSizeError};
pub use map::WindowMap;
#[cfg(not(loom))]
pub use wait::WaitError;
#[cfg(not(loom))]
pub use window::{Launch, Signal, Window, WindowError};
#[cfg(not(loom))]
pub use world::{World, WorldError};
