//! One kernel launch on all cores of a device: what its cores share, and how it ended.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use moe_core::Soc;

use super::memory::{CoreKind, MemoryPlan};
use crate::abi::types::BarrierKind;
use crate::checked::Checker;
use crate::device::{DeviceError, KernelCores};

/// Cross-core flags of a physical core.
pub(crate) const NUM_CROSS_FLAGS: usize = 16;

/// A barrier over cores of a launch: the last to arrive starts the next round.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    arrived: AtomicU32,
    round: AtomicI32,
}

impl Barrier {
    /// The round to wait for, or `None` for the last core to arrive.
    pub(crate) fn arrive(&self, num_cores: u32) -> Option<i32> {
        let next = self.round.load(Ordering::Acquire).wrapping_add(1);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < num_cores {
            return Some(next);
        }
        self.arrived.store(0, Ordering::Relaxed);
        self.round.store(next, Ordering::Release);
        None
    }

    pub(crate) fn word(&self) -> *const AtomicI32 {
        &raw const self.round
    }
}

/// Cross-core flags of one physical core: sets from the matrix core and from each vector core, and what
/// each core has taken, so that a wait is for a count that only grows.
#[derive(Debug, Default)]
pub(crate) struct CrossFlag {
    /// Sets by the matrix core.
    pub(crate) from_aic: AtomicI32,
    /// Sets by each vector core.
    pub(crate) from_aiv: [AtomicI32; 2],
    /// Waits of the matrix core, and of each vector core.
    pub(crate) taken: [AtomicI32; 3],
}

impl CrossFlag {
    /// Waits so far for sets of this kind of core, of whoever has waited least.
    pub(crate) fn taken_of(&self, setter: CoreKind) -> i32 {
        let takers = match setter {
            CoreKind::Aic => &self.taken[1..],
            CoreKind::Aiv => &self.taken[..1],
        };
        let counts = takers.iter().map(|taken| taken.load(Ordering::Relaxed));
        counts.min().unwrap_or(0)
    }
}

/// Says why waiting is in vain, if it is: a peer has failed.
type Failure = Arc<dyn Fn() -> Option<String> + Send + Sync>;
/// Says what lies at an address, if it knows.
type Names = Arc<dyn Fn(u64) -> Option<String> + Send + Sync>;

/// What a device knows of the world around it.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    pub(crate) failure: Option<Failure>,
    pub(crate) names: Option<Names>,
    /// Global memory that kernels only read, whatever they do.
    pub(crate) constants: Vec<Range<u64>>,
    /// Who checks the launch.
    pub(crate) checker: Option<Arc<Checker>>,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}

/// What the cores of a launch share.
#[derive(Debug)]
pub(crate) struct LaunchState {
    pub(crate) kernel: String,
    pub(crate) rank: u32,
    pub(crate) num_blocks: u32,
    pub(crate) cores: KernelCores,
    pub(crate) barriers: [Barrier; 3],
    /// In checked mode: its number.
    pub(crate) check_number: u64,
    outside: Outside,
    cross_flags: Vec<[CrossFlag; NUM_CROSS_FLAGS]>,
    aic_plan: Arc<MemoryPlan>,
    aiv_plan: Arc<MemoryPlan>,
    failed: AtomicBool,
    outcome: Mutex<Outcome>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Outcome {
    error: Option<DeviceError>,
    running_cores: usize,
}

impl LaunchState {
    pub(crate) fn new(
        kernel: String,
        rank: u32,
        num_blocks: u32,
        cores: KernelCores,
        soc: &Soc,
        outside: Outside,
    ) -> Self {
        let state = Self {
            kernel,
            rank,
            num_blocks,
            cores,
            barriers: Default::default(),
            check_number: outside
                .checker
                .as_ref()
                .map_or(0, |checker| checker.number_launch()),
            outside,
            cross_flags: (0..num_blocks).map(|_| Default::default()).collect(),
            aic_plan: Arc::new(MemoryPlan::new(soc, CoreKind::Aic)),
            aiv_plan: Arc::new(MemoryPlan::new(soc, CoreKind::Aiv)),
            failed: AtomicBool::new(false),
            outcome: Mutex::default(),
            ended: Condvar::new(),
        };
        state.outcome().running_cores = state.num_cores(BarrierKind::All) as usize;
        state
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        // A panic can't leave an outcome half written.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who checks it, if anybody does.
    pub(crate) fn checker(&self) -> Option<&Arc<Checker>> {
        self.outside.checker.as_ref()
    }

    /// Whether kernels only ever read these bytes of global memory. What is checked is moved all the same.
    pub(crate) fn is_constant(&self, bytes: &Range<u64>) -> bool {
        if self.outside.checker.is_some() {
            return false;
        }
        let holds = |range: &Range<u64>| range.start <= bytes.start && bytes.end <= range.end;
        self.outside.constants.iter().any(holds)
    }

    pub(crate) fn memory_plan(&self, kind: CoreKind) -> Arc<MemoryPlan> {
        Arc::clone(match kind {
            CoreKind::Aic => &self.aic_plan,
            CoreKind::Aiv => &self.aiv_plan,
        })
    }

    pub(crate) fn cross_flag(&self, block: u32, flag: usize) -> &CrossFlag {
        &self.cross_flags[block as usize][flag]
    }

    /// Cores that take part in a barrier.
    pub(crate) fn num_cores(&self, kind: BarrierKind) -> u32 {
        let aic = if self.cores.has_aic() {
            self.num_blocks
        } else {
            0
        };
        let aiv = self.num_blocks * self.cores.aiv_per_block();
        match kind {
            BarrierKind::Aic => aic,
            BarrierKind::Aiv => aiv,
            BarrierKind::All => aic + aiv,
        }
    }

    /// Why its waits for peers are in vain, if they are.
    pub(crate) fn peer_failure(&self) -> Option<String> {
        self.outside.failure.as_ref().and_then(|failure| failure())
    }

    /// What lies at an address, if anybody knows.
    pub(crate) fn name_of(&self, address: u64) -> Option<String> {
        self.outside.names.as_ref().and_then(|names| names(address))
    }

    /// Records why the launch can't end well; the first reason stands.
    pub(crate) fn fail(&self, reason: String) {
        self.fail_with(DeviceError::Kernel {
            kernel: self.kernel.clone(),
            rank: self.rank,
            reason,
        });
    }

    pub(crate) fn fail_with(&self, error: DeviceError) {
        self.outcome().error.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// One core will never run again; whether it was the last.
    pub(crate) fn core_ended(&self) -> bool {
        let mut outcome = self.outcome();
        outcome.running_cores -= 1;
        let last = outcome.running_cores == 0;
        if last {
            self.ended.notify_all();
        }
        last
    }

    /// Blocks until every core has ended.
    pub(crate) fn wait(&self) -> Result<(), DeviceError> {
        let mut outcome = self.outcome();
        while outcome.running_cores > 0 {
            outcome = self
                .ended
                .wait(outcome)
                .unwrap_or_else(PoisonError::into_inner);
        }
        outcome.error.clone().map_or(Ok(()), Err)
    }
}
