//! Device memory: of the host, and known.

use std::collections::BTreeMap;

use memmap2::MmapMut;

use crate::state::Failure;

/// What fills new memory.
const PATTERN: u8 = 0xa5;
/// Bytes of a large allocation that are filled.
const FILLED: usize = 1 << 20;

#[derive(Debug)]
struct Allocation {
    map: MmapMut,
    /// HCCL's own, not to be freed by others.
    is_internal: bool,
}

/// All that device code may use, by address.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    /// Windows of communicators: address and bytes.
    windows: BTreeMap<u64, u64>,
}

impl Memory {
    fn allocate(&mut self, bytes: usize, is_internal: bool) -> Option<u64> {
        let mut map = MmapMut::map_anon(bytes).ok()?;
        let filled = bytes.min(FILLED);
        map[..filled].fill(PATTERN);
        let address = map.as_ptr() as u64;
        self.allocations
            .insert(address, Allocation { map, is_internal });
        Some(address)
    }

    /// New memory; `None` where there is not enough.
    pub(crate) fn alloc(&mut self, bytes: usize) -> Option<u64> {
        self.allocate(bytes, false)
    }

    /// Memory of HCCL's that holds these bytes.
    pub(crate) fn alloc_internal(&mut self, bytes: &[u8]) -> Option<u64> {
        let address = self.allocate(bytes.len(), true)?;
        let allocation = self.allocations.get_mut(&address)?;
        allocation.map[..bytes.len()].copy_from_slice(bytes);
        Some(address)
    }

    pub(crate) fn free(&mut self, address: u64) -> Result<(), Failure> {
        match self.allocations.get(&address) {
            Some(allocation) if !allocation.is_internal => {
                self.allocations.remove(&address);
                Ok(())
            }
            _ => Err(Failure::argument(format!("{address:#x} is not allocated"))),
        }
    }

    pub(crate) fn free_internal(&mut self, address: u64) {
        self.allocations.remove(&address);
    }

    pub(crate) fn add_window(&mut self, address: u64, bytes: u64) {
        self.windows.insert(address, bytes);
    }

    pub(crate) fn remove_window(&mut self, address: u64) {
        self.windows.remove(&address);
    }

    /// The bytes lie in one piece of device memory.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let allocation = self.allocations.range(..=address).next_back();
        let allocation =
            allocation.map(|(start, allocation)| (*start, allocation.map.len() as u64));
        let window = self
            .windows
            .range(..=address)
            .next_back()
            .map(|(start, len)| (*start, *len));
        let holds = |piece: Option<(u64, u64)>| {
            piece.is_some_and(|(start, len)| {
                address - start <= len && bytes <= len - (address - start)
            })
        };
        if holds(allocation) || holds(window) {
            return Ok(());
        }
        let message = format!("{bytes} bytes at {address:#x} are not device memory");
        Err(Failure::argument(message))
    }

    /// Allocations that are to be freed.
    pub(crate) fn num_allocations(&self) -> u64 {
        let mine = |allocation: &&Allocation| !allocation.is_internal;
        self.allocations.values().filter(mine).count() as u64
    }
}
