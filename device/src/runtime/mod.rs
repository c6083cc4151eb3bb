//! The virtual device's cores: coroutines on few threads, their memories, and what they share.

pub(crate) mod constant;
pub(crate) mod core;
pub(crate) mod executor;
pub(crate) mod huge_pages;
pub(crate) mod launch;
pub(crate) mod memory;
mod report;
