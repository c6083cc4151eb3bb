//! A logical core: who it is, its memories, its flags, and how it pauses.

use std::cell::Cell;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use corosensei::Yielder;
use moe_core::rng::Rng;

use super::constant::ConstantTiles;
use super::launch::LaunchState;
use super::memory::{CoreKind, CoreMemory, MemoryPlan};
use crate::abi::types::{Compare, CoreInfo, Memory};
use crate::checked::{Agent, Check, CoreCheck, Instruction};
use crate::compute::matmul::Scratch;

/// Pipes of a core; flags order two of them.
pub(crate) const NUM_PIPES: usize = 8;
/// Flags of a pair of pipes.
pub(crate) const NUM_EVENTS: usize = 8;

/// A word that a core waits for.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) word: *const AtomicI32,
    pub(crate) compare: Compare,
    pub(crate) want: i32,
    pub(crate) what: &'static str,
}

impl Wait {
    pub(crate) fn seen(&self) -> i32 {
        // SAFETY: the word belongs to the launch, or to global memory that outlives it: whoever
        // launches keeps both alive until the launch has ended.
        unsafe { (*self.word).load(Ordering::Acquire) }
    }

    pub(crate) fn holds(&self) -> bool {
        let (seen, want) = (self.seen(), self.want);
        match self.compare {
            Compare::Eq => seen == want,
            Compare::Ne => seen != want,
            Compare::Gt => seen > want,
            Compare::Ge => seen >= want,
            Compare::Lt => seen < want,
            Compare::Le => seen <= want,
        }
    }
}

/// Why a core gives the processor away.
pub(crate) enum Pause {
    /// Others may run first.
    Yield,
    /// It can't go on before the word has the value.
    Wait(Wait),
    /// It can't go on at all; the launch knows why.
    Failed,
}

/// A logical core.
pub(crate) struct Core {
    pub(crate) info: CoreInfo,
    pub(crate) kind: CoreKind,
    pub(crate) launch: Arc<LaunchState>,
    pub(crate) memory: CoreMemory,
    plan: Arc<MemoryPlan>,
    flags: [[[u8; NUM_EVENTS]; NUM_PIPES]; NUM_PIPES],
    /// Row sums of left operands, which the matrix unit needs beside them: one per 32 bytes of L0A.
    pub(crate) left_sums: Vec<i32>,
    /// Rows of the left operand that starts at each 32 bytes of L0A.
    pub(crate) left_rows: Vec<usize>,
    l1_constants: ConstantTiles,
    l0b_constants: ConstantTiles,
    /// The matrix unit's own memory.
    pub(crate) matmul_scratch: Option<Box<Scratch>>,
    /// In explored schedules: decides where the core pauses of its own accord.
    preempt: Option<Rng>,
    /// Addresses of its stack.
    pub(crate) stack: Range<u64>,
    /// In checked mode: what its pipes know.
    pub(crate) check: Option<Box<CoreCheck>>,
    yielder: Cell<Option<NonNull<Yielder<(), Pause>>>>,
}

thread_local! {
    /// The core that runs on this thread.
    static CURRENT: Cell<*mut Core> = const { Cell::new(std::ptr::null_mut()) };
}

impl Core {
    pub(crate) fn new(
        info: CoreInfo,
        kind: CoreKind,
        launch: Arc<LaunchState>,
        memory: CoreMemory,
        preempt: Option<Rng>,
    ) -> Self {
        let plan = launch.memory_plan(kind);
        let check = launch.checker().map(|checker| {
            let who = (launch.rank, name_of(&info, kind));
            Box::new(CoreCheck::new(
                checker,
                &launch.kernel,
                who,
                launch.check_number,
            ))
        });
        Self {
            info,
            kind,
            memory,
            flags: [[[0; NUM_EVENTS]; NUM_PIPES]; NUM_PIPES],
            left_sums: vec![0; plan.size(Memory::L0a) / 32],
            left_rows: vec![0; plan.size(Memory::L0a) / 32],
            l1_constants: ConstantTiles::default(),
            l0b_constants: ConstantTiles::default(),
            matmul_scratch: (kind == CoreKind::Aic).then(Box::default),
            plan,
            launch,
            preempt,
            stack: 0..0,
            check,
            yielder: Cell::new(None),
        }
    }

    /// Name in reports.
    pub(crate) fn name(&self) -> String {
        name_of(&self.info, self.kind)
    }

    /// In checked mode: an instruction of a pipe, and what it reads and writes.
    #[inline]
    pub(crate) fn track(
        &mut self,
        name: &'static str,
        pipe: Agent,
        describe: impl FnOnce(&mut Instruction<'_>),
    ) {
        if let Some(check) = &mut self.check {
            check.instruction(name, pipe, describe);
            self.stop_if_lost();
        }
    }

    /// In checked mode: an access to memory that is not there is reported, not carried out.
    pub(crate) fn stop_if_lost(&self) {
        if self.check.as_ref().is_some_and(|check| check.is_lost) {
            self.launch
                .fail(format!("{}: memory that is not there", self.name()));
            self.pause(Pause::Failed);
        }
    }

    /// Makes this the core of the running thread, for as long as it runs.
    pub(crate) fn enter(&mut self) {
        CURRENT.set(self);
    }

    /// The core that calls. Kernels run on cores only, so there is one.
    ///
    /// # Safety
    /// The caller is on a core's stack and drops the reference before the core pauses or calls this
    /// again.
    // Never inlined: a core may go on on another thread after a pause, and a compiler that sees two calls
    // in one function would look up the thread's variable once.
    #[inline(never)]
    pub(crate) unsafe fn current<'a>() -> &'a mut Self {
        let core = CURRENT.get();
        assert!(!core.is_null(), "device code runs on a core of a launch");
        // SAFETY: set by `enter` on this thread before the core was resumed; the executor touches a
        // core only while it is paused.
        unsafe { &mut *core }
    }

    pub(crate) fn set_yielder(&self, yielder: &Yielder<(), Pause>) {
        self.yielder.set(Some(NonNull::from(yielder)));
    }

    fn pause(&self, pause: Pause) {
        let yielder = self.yielder.get().expect("a running core has a yielder");
        // SAFETY: it lives on the stack of this core's coroutine, at its very bottom.
        unsafe { yielder.as_ref() }.suspend(pause);
    }

    /// In explored schedules others may run here.
    pub(crate) fn maybe_preempt(&mut self) {
        if self.preempt.as_mut().is_some_and(|rng| rng.below(4) == 0) {
            self.pause(Pause::Yield);
        }
    }

    /// Returns when the word has the value.
    pub(crate) fn wait(&mut self, wait: Wait) {
        self.maybe_preempt();
        if !wait.holds() {
            self.pause(Pause::Wait(wait));
        }
    }

    /// Ends the launch with an error. The core never runs again.
    pub(crate) fn fail(&self, reason: &str) -> ! {
        if let Some(check) = &self.check {
            let is_about_flags = ["flag", "SYNCALL"].iter().any(|word| reason.contains(word));
            check.say(
                if is_about_flags {
                    Check::Synccheck
                } else {
                    Check::Memcheck
                },
                reason,
            );
        }
        self.launch.fail(format!("{}: {reason}", self.name()));
        self.pause(Pause::Failed);
        unreachable!("a failed core is not resumed")
    }

    /// Bytes `address .. address + len` of a memory.
    pub(crate) fn bytes(&mut self, memory: Memory, address: usize, len: usize) -> *mut u8 {
        let size = self.plan.size(memory);
        if address.checked_add(len).is_none_or(|end| end > size) {
            self.fail(&format!(
                "bytes {address}..{} of {memory:?} are used, which has {size}",
                address.saturating_add(len)
            ));
        }
        // SAFETY: the range was checked against the memory, which lies in the mapping.
        unsafe { self.memory.base().add(self.plan.offset(memory) + address) }
    }

    /// What stands for constant weights in L1 or L0B.
    pub(crate) fn constants(&mut self, memory: Memory) -> &mut ConstantTiles {
        match memory {
            Memory::L0b => &mut self.l0b_constants,
            _ => &mut self.l1_constants,
        }
    }

    /// Before bytes of L1 or L0B are read: constant tiles that stand for them are copied there.
    pub(crate) fn settle_constants(&mut self, memory: Memory, range: &Range<usize>) {
        let base = self.bytes(memory, 0, 0);
        // SAFETY: the memory starts there.
        unsafe { self.constants(memory).settle(base, range) };
    }

    /// Before a tile is written to `range` of L1 or L0B.
    pub(crate) fn replace_constants(&mut self, memory: Memory, range: &Range<usize>) {
        let base = self.bytes(memory, 0, 0);
        // SAFETY: the memory starts there.
        unsafe { self.constants(memory).replace(base, range) };
    }

    pub(crate) fn memory_size(&self, memory: Memory) -> usize {
        self.plan.size(memory)
    }

    /// One pipe tells another that it is done.
    pub(crate) fn set_flag(&mut self, source: usize, target: usize, event: usize) {
        let count = &mut self.flags[source][target][event];
        *count += 1;
        if *count > 1 {
            let pair = format!("{} -> {}", pipe_name(source), pipe_name(target));
            self.fail(&format!(
                "flag {pair} {event} is set twice without a wait between"
            ));
        }
    }

    /// One pipe waits for another. Instructions run in order here, so the flag has been set or never
    /// will be.
    pub(crate) fn wait_flag(&mut self, source: usize, target: usize, event: usize) {
        let count = &mut self.flags[source][target][event];
        if *count == 0 {
            let pair = format!("{} -> {}", pipe_name(source), pipe_name(target));
            self.fail(&format!(
                "waits for flag {pair} {event}, which was not set before"
            ));
        }
        *count -= 1;
    }

    /// At the end of a kernel: a flag that nobody waited for makes the next launch on a real core hang.
    pub(crate) fn check_flags(&mut self) {
        if let Some(check) = &mut self.check {
            check.end();
        }
        for (source, targets) in self.flags.iter().enumerate() {
            for (target, events) in targets.iter().enumerate() {
                if let Some(event) = events.iter().position(|&count| count > 0) {
                    let pair = format!("{} -> {}", pipe_name(source), pipe_name(target));
                    self.fail(&format!(
                        "flag {pair} {event} is still set at the end of the kernel"
                    ));
                }
            }
        }
    }
}

fn name_of(info: &CoreInfo, kind: CoreKind) -> String {
    let CoreInfo {
        block_idx,
        subblock_idx,
        ..
    } = info;
    match kind {
        CoreKind::Aic => format!("AIC {block_idx}"),
        CoreKind::Aiv => format!("AIV {block_idx}.{subblock_idx}"),
    }
}

fn pipe_name(pipe: usize) -> &'static str {
    ["S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"][pipe % NUM_PIPES]
}
