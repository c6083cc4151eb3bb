//! What `hooks.cpp` calls.

use std::ops::Range;

use crate::abi::types::Memory;
use crate::runtime::core::Core;

/// Where the kernel is that calls next.
///
/// # Safety
/// The caller is on a core's stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_chk_at(return_address: u64) {
    // SAFETY: the reference ends with this function.
    let core = unsafe { Core::current() };
    if let Some(check) = &mut core.check {
        check.return_address = return_address;
    }
}

/// A load or store that the compiler saw in a kernel.
///
/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_chk_access(
    address: u64,
    len: u64,
    is_write: u32,
    return_address: u64,
) {
    // SAFETY: the reference ends with this function.
    let core = unsafe { Core::current() };
    if core.stack.contains(&address) {
        return;
    }
    let on_chip = on_chip(core, address, len);
    let Some(check) = &mut core.check else {
        return;
    };
    check.return_address = return_address;
    let is_write = is_write != 0;
    match on_chip {
        Some((memory, range)) => check.scalar(Some(memory), range, is_write),
        None if check.is_own(address) => (),
        None => check.scalar(None, address..address + len, is_write),
    }
    core.stop_if_lost();
}

/// The on-chip memory behind an address of this process.
fn on_chip(core: &mut Core, address: u64, len: u64) -> Option<(Memory, Range<u64>)> {
    Memory::ALL.into_iter().find_map(|memory| {
        let size = core.memory_size(memory) as u64;
        if size == 0 {
            return None;
        }
        let offset = address.checked_sub(core.bytes(memory, 0, 0) as u64)?;
        (offset < size).then(|| (memory, offset..(offset + len).min(size)))
    })
}
