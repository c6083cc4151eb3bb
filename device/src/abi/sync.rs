//! Flags, barriers and signals.

use std::sync::atomic::{AtomicI32, Ordering, fence};

use moe_core::soc::TICK_NANOSECONDS;

use super::types::{BarrierKind, Compare, CoreInfo, Memory};
use crate::runtime::core::{Core, NUM_EVENTS, NUM_PIPES, Wait};
use crate::runtime::launch::NUM_CROSS_FLAGS;
use crate::runtime::memory::CoreKind;

impl Compare {
    fn of(code: u32) -> Self {
        [Self::Eq, Self::Ne, Self::Gt, Self::Ge, Self::Lt, Self::Le][code as usize]
    }
}

/// Who runs.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_core(info: &mut CoreInfo) {
    // SAFETY: the reference ends with this function.
    *info = unsafe { Core::current() }.info;
}

/// Start of an on-chip memory, for scalar access to a tile's elements.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_memory(memory: u32) -> *mut u8 {
    // SAFETY: the reference ends with this function.
    let core = unsafe { Core::current() };
    let memory = Memory::ALL[memory as usize];
    if core.memory_size(memory) == 0 {
        core.fail(&format!("this core has no {memory:?}"));
    }
    core.bytes(memory, 0, 0)
}

/// A core that can't go on: an instruction used as the hardware does not allow.
///
/// # Safety
/// See the module; `reason` is a C string.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_fail(reason: *const std::ffi::c_char) -> ! {
    // SAFETY: as the caller promises.
    let reason = unsafe { std::ffi::CStr::from_ptr(reason) }.to_string_lossy();
    // SAFETY: the core does not run again.
    unsafe { Core::current() }.fail(&reason)
}

fn check_flag(core: &Core, source: u32, target: u32, event: u32) {
    let pipes = NUM_PIPES as u32;
    if source >= pipes || target >= pipes || event >= NUM_EVENTS as u32 {
        core.fail(&format!(
            "flag {event} between pipes {source} and {target}: there are {NUM_EVENTS} flags"
        ));
    }
}

/// `set_flag`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_set_flag(source: u32, target: u32, event: u32) {
    // SAFETY: the reference ends with this function.
    let core = unsafe { Core::current() };
    check_flag(core, source, target, event);
    core.set_flag(source as usize, target as usize, event as usize);
    if let Some(check) = &mut core.check {
        check.set_flag(source as usize, target as usize, event as usize);
    }
}

/// `wait_flag`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_wait_flag(source: u32, target: u32, event: u32) {
    // SAFETY: the reference ends with this function.
    let core = unsafe { Core::current() };
    check_flag(core, source, target, event);
    core.wait_flag(source as usize, target as usize, event as usize);
    if let Some(check) = &mut core.check {
        check.wait_flag(source as usize, target as usize, event as usize);
    }
}

/// `pipe_barrier`. What came before is visible to who sees what comes after, in whatever order the compiler had it.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_pipe_barrier(pipe: u32) {
    fence(Ordering::SeqCst);
    // SAFETY: the reference ends with this function.
    if let Some(check) = unsafe { &mut Core::current().check } {
        check.pipe_barrier(pipe as usize);
    }
}

/// `dsb`, likewise.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_dsb() {
    fence(Ordering::SeqCst);
    // SAFETY: the reference ends with this function.
    if let Some(check) = unsafe { &mut Core::current().check } {
        check.dsb();
    }
}

/// `dcci` of the line at an address, or of the whole cache. The host has no other cache than its own.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_dcci(address: u64, whole: u32) {
    fence(Ordering::SeqCst);
    // SAFETY: the reference ends with this function.
    if let Some(check) = unsafe { &mut Core::current().check } {
        if whole == 0 {
            check.dcci(address);
        } else {
            check.dcci_all();
        }
    }
}

/// `get_sys_cnt`.
///
/// # Safety
/// Always safe.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_sys_cnt() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanoseconds = now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned();
    nanoseconds / TICK_NANOSECONDS
}

/// `SYNCALL`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_sync_all(kind: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let kind = [BarrierKind::Aiv, BarrierKind::Aic, BarrierKind::All][kind as usize];
    let (own, name) = match kind {
        BarrierKind::Aiv => (core.kind == CoreKind::Aiv, "SYNCALL of vector cores"),
        BarrierKind::Aic => (core.kind == CoreKind::Aic, "SYNCALL of matrix cores"),
        BarrierKind::All => (true, "SYNCALL of all cores"),
    };
    if !own {
        core.fail(&format!("takes part in a {name}"));
    }
    core.maybe_preempt();
    let num_cores = core.launch.num_cores(kind);
    let check = core.check.as_mut();
    let meeting = check.map(|check| check.arrive(kind as u32, num_cores));
    let barrier = &core.launch.barriers[kind as usize];
    let word = barrier.word();
    if let Some(round) = barrier.arrive(num_cores) {
        core.wait(Wait {
            word,
            compare: Compare::Ge,
            want: round,
            what: name,
        });
    }
    if let (Some(check), Some(meeting)) = (&mut core.check, meeting) {
        check.leave(kind as u32, meeting);
    }
}

/// `TNOTIFY`; `add` is nonzero for an atomic addition.
///
/// # Safety
/// See the module; `signal` is an aligned word of global memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_notify(signal: *const AtomicI32, value: i32, add: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    core.maybe_preempt();
    if let Some(check) = &mut core.check {
        check.notify(signal as u64);
    }
    core.stop_if_lost();
    // SAFETY: as the caller promises.
    let signal = unsafe { &*signal };
    if add == 0 {
        signal.store(value, Ordering::Release);
    } else {
        signal.fetch_add(value, Ordering::AcqRel);
    }
}

/// `TWAIT` on one signal.
///
/// # Safety
/// See the module; `signal` is an aligned word of global memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_wait(signal: *const AtomicI32, value: i32, compare: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    if let Some(check) = &mut core.check {
        check.looks_at(signal as u64, "TWAIT");
    }
    core.stop_if_lost();
    core.wait(Wait {
        word: signal,
        compare: Compare::of(compare),
        want: value,
        what: "TWAIT",
    });
    if let Some(check) = &mut core.check {
        check.saw(signal as u64, "TWAIT");
    }
    core.stop_if_lost();
}

/// `TTEST` on one signal: whether it has the value, without waiting.
///
/// # Safety
/// See the module; `signal` is an aligned word of global memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_test(signal: *const AtomicI32, value: i32, compare: u32) -> u32 {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    core.maybe_preempt();
    if let Some(check) = &mut core.check {
        check.looks_at(signal as u64, "TTEST");
    }
    core.stop_if_lost();
    let compare = Compare::of(compare);
    let holds = Wait {
        word: signal,
        compare,
        want: value,
        what: "TTEST",
    }
    .holds();
    if let Some(check) = core.check.as_mut().filter(|_| holds) {
        check.saw(signal as u64, "TTEST");
    }
    u32::from(holds)
}

/// `ffts_cross_core_sync` between the cores of one physical core: sets a flag for the other kind.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_cross_set(pipe: u32, flag: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    check_cross_flag(core, flag);
    core.maybe_preempt();
    let flags = core.launch.cross_flag(core.info.block_idx, flag as usize);
    let word = match core.kind {
        CoreKind::Aic => &flags.from_aic,
        CoreKind::Aiv => &flags.from_aiv[core.info.subblock_idx as usize],
    };
    let (block, from) = (core.info.block_idx, taker_of(core));
    // The check comes before the flag: who sees it looks for what it carries.
    if let Some(check) = &mut core.check {
        check.cross_set(pipe as usize, (block, flag, from));
    }
    if word.fetch_add(1, Ordering::AcqRel) >= MAX_CROSS_PENDING + flags.taken_of(core.kind) {
        core.fail(&format!(
            "cross-core flag {flag} is set {MAX_CROSS_PENDING} times more than it was waited for: its counter saturates"
        ));
    }
}

/// `wait_flag_dev`: a vector core waits for its matrix core, the matrix core for both vector cores.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_cross_wait(flag: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    check_cross_flag(core, flag);
    // SAFETY: the launch outlives its cores; nothing that owns it may be held over a pause.
    let launch = unsafe { &*std::sync::Arc::as_ptr(&core.launch) };
    let flags = launch.cross_flag(core.info.block_idx, flag as usize);
    let taker = taker_of(core) as usize;
    let block = core.info.block_idx;
    let want = flags.taken[taker].fetch_add(1, Ordering::Relaxed) + 1;
    let mut wait = |word: &AtomicI32| {
        let what = "a cross-core flag";
        core.wait(Wait {
            word,
            compare: Compare::Ge,
            want,
            what,
        });
    };
    match taker {
        0 => flags.from_aiv.iter().for_each(&mut wait),
        _ => wait(&flags.from_aic),
    }
    if let Some(check) = &mut core.check {
        let from = if taker == 0 { 1..3 } else { 0..1 };
        for from in from {
            check.cross_wait((block, flag, from), want.unsigned_abs() as usize);
        }
    }
}

/// Sets of a cross-core flag that its counter holds.
const MAX_CROSS_PENDING: i32 = 15;

/// Which of a physical core's cores it is: 0 for the matrix core.
fn taker_of(core: &Core) -> u32 {
    match core.kind {
        CoreKind::Aic => 0,
        CoreKind::Aiv => 1 + core.info.subblock_idx,
    }
}

fn check_cross_flag(core: &Core, flag: u32) {
    // SYNCALL uses 11 to 14 itself.
    if flag as usize >= NUM_CROSS_FLAGS || (11..=14).contains(&flag) {
        core.fail(&format!("cross-core flag {flag}: 0 to 10 and 15 are free"));
    }
}
