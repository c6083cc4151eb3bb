//! On-chip memories of a logical core.

use memmap2::MmapMut;
use moe_core::Soc;

use crate::abi::types::Memory;

/// Kinds of core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CoreKind {
    /// Matrix core.
    Aic,
    /// Vector core.
    Aiv,
}

const NUM_MEMORIES: usize = 7;
const PAGE: usize = 4096;

/// Where each memory of a kind of core starts and how long it is, in one mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    places: [(usize, usize); NUM_MEMORIES],
    total: usize,
}

impl MemoryPlan {
    pub(crate) fn new(soc: &Soc, kind: CoreKind) -> Self {
        let sizes = match kind {
            CoreKind::Aiv => [soc.ub_bytes, 0, 0, 0, 0, 0, 0],
            CoreKind::Aic => [
                0,
                soc.l1_bytes,
                soc.l0ab_bytes,
                soc.l0ab_bytes,
                soc.l0c_bytes,
                soc.bias_bytes,
                soc.fixpipe_bytes,
            ],
        };
        let mut total = 0;
        let places = sizes.map(|bytes| {
            let place = (total, bytes as usize);
            total += (bytes as usize).next_multiple_of(PAGE);
            place
        });
        Self { places, total }
    }

    pub(crate) fn size(&self, memory: Memory) -> usize {
        self.places[memory as usize].1
    }

    pub(crate) fn offset(&self, memory: Memory) -> usize {
        self.places[memory as usize].0
    }
}

/// The memories of one core. Pages come from the system on first use.
#[derive(Debug)]
pub(crate) struct CoreMemory {
    map: MmapMut,
}

impl CoreMemory {
    pub(crate) fn new(plan: &MemoryPlan) -> std::io::Result<Self> {
        Ok(Self {
            map: MmapMut::map_anon(plan.total.max(PAGE))?,
        })
    }

    pub(crate) fn base(&mut self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// What stands there at a launch is none of a kernel's business: `byte` shows who relies on it.
    pub(crate) fn fill(&mut self, byte: u8) {
        self.map.fill(byte);
    }
}
