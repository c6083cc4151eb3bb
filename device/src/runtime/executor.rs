//! Runs the cores of all launches on few threads.
//!
//! A core is a coroutine. One that waits costs nothing but a look at its word when a worker has nothing
//! else to run. When every core of every device waits and no other process can help, that is a deadlock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult};
use moe_core::rng::Rng;

use super::core::{Core, Pause, Wait};
use super::launch::LaunchState;
use super::memory::{CoreKind, CoreMemory};
use super::report::stall_report;
use crate::abi::types::CoreInfo;
use crate::device::{DeviceError, KernelEntry};

/// Bytes of a core's stack: kernels keep tiles in on-chip memory, not there.
const STACK_BYTES: usize = 256 * 1024;
/// Looks at waiting cores before a worker sleeps.
const IDLE_SPINS: u32 = 100;
/// Longest sleep of a worker while cores wait.
const IDLE_SLEEP: Duration = Duration::from_micros(100);
/// Cores run between two looks at the waiting ones.
const RUNS_PER_LOOK: u32 = 16;

/// How cores are scheduled.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Threads that run cores; 0 for as many as the machine has processors.
    pub workers: usize,
    /// With a seed and one worker: a schedule that the seed decides, with pauses in odd places. Devices
    /// then start together.
    pub seed: Option<u64>,
    /// Devices that will launch on this executor.
    pub num_devices: usize,
    /// Other processes write the words that cores wait for: a standstill proves nothing.
    pub has_outside_peers: bool,
    /// Longest wait of a core.
    pub deadline: Duration,
    /// Fill on-chip memories with 0xA5 before each launch.
    pub poison: bool,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self {
            workers: 0,
            seed: None,
            num_devices: 1,
            has_outside_peers: false,
            deadline: Duration::from_secs(30),
            poison: false,
        }
    }
}

type CoreCoroutine = Coroutine<(), Pause, (), DefaultStack>;

struct Task {
    coroutine: CoreCoroutine,
    core: Box<Core>,
}

// SAFETY: a task is run by one thread at a time, and between two runs nothing of it refers to a
// thread: the running core is looked up anew on every call, never kept over a pause.
unsafe impl Send for Task {}

pub(crate) struct WaitingTask {
    task: Task,
    pub(crate) wait: Wait,
    since: Instant,
}

// SAFETY: as for `Task`; the word that `wait` points to is shared memory.
unsafe impl Send for WaitingTask {}

impl WaitingTask {
    pub(crate) fn core(&self) -> &Core {
        &self.task.core
    }
}

#[derive(Default)]
struct State {
    ready: std::collections::VecDeque<Task>,
    waiting: Vec<WaitingTask>,
    /// Launches that wait for the other devices to launch too.
    held: Vec<Vec<Task>>,
    running: usize,
    launches: Vec<Arc<LaunchState>>,
    stacks: Vec<DefaultStack>,
    memories: Vec<(CoreKind, CoreMemory)>,
    rng: Option<Rng>,
    shutdown: bool,
}

struct Shared {
    options: ExecutorOptions,
    state: Mutex<State>,
    changed: Condvar,
}

/// Threads that run the cores of one or more devices.
pub struct Executor {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// A launch that is to be started.
pub(crate) struct Submission {
    pub(crate) launch: Arc<LaunchState>,
    pub(crate) entry: KernelEntry,
    pub(crate) args: u64,
}

impl Executor {
    /// Starts the workers.
    ///
    /// # Errors
    /// [`DeviceError::Options`] for a seed with several workers: their race is not reproducible.
    pub fn new(options: ExecutorOptions) -> Result<Self, DeviceError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = match (options.workers, options.seed) {
            (0, Some(_)) => 1,
            (0, None) => processors,
            (count, Some(_)) if count > 1 => {
                let reason = format!("a seed needs 1 worker, got {count}");
                return Err(DeviceError::Options { reason });
            }
            (count, _) => count,
        };
        let state = State {
            rng: options.seed.map(Rng::new),
            ..State::default()
        };
        let shared = Arc::new(Shared {
            options,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let mut threads = Vec::new();
        for worker in 0..workers {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name(format!("device worker {worker}"))
                .spawn(move || shared.work());
            threads.push(thread.map_err(|error| DeviceError::Host {
                what: "start a worker thread".to_owned(),
                reason: error.to_string(),
            })?);
        }
        Ok(Self {
            shared,
            workers: threads,
        })
    }

    /// How cores are scheduled.
    #[must_use]
    pub fn options(&self) -> &ExecutorOptions {
        &self.shared.options
    }

    /// Puts all cores of a launch on the way.
    pub(crate) fn submit(&self, submission: &Submission) -> Result<(), DeviceError> {
        self.shared.submit(submission)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.shared.lock().shutdown = true;
        self.shared.changed.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has nothing left to clean up.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn submit(&self, submission: &Submission) -> Result<(), DeviceError> {
        let mut state = self.lock();
        let mut tasks = Vec::new();
        for (kind, info) in core_infos(&submission.launch) {
            let core = self.core(&mut state, submission, kind, info)?;
            let stack = match state.stacks.pop() {
                Some(stack) => stack,
                None => DefaultStack::new(STACK_BYTES).map_err(|error| DeviceError::Host {
                    what: "a core's stack".to_owned(),
                    reason: error.to_string(),
                })?,
            };
            tasks.push(Task::new(core, stack, submission));
        }
        state.launches.push(Arc::clone(&submission.launch));
        state.held.push(tasks);
        // In an explored schedule all devices start together, whichever host thread came first.
        let gang = if self.options.seed.is_some() {
            self.options.num_devices
        } else {
            1
        };
        if state.held.len() >= gang {
            let mut held = std::mem::take(&mut state.held);
            held.sort_by_key(|tasks| tasks[0].core.launch.rank);
            state.ready.extend(held.into_iter().flatten());
            self.changed.notify_all();
        }
        Ok(())
    }

    fn core(
        &self,
        state: &mut State,
        submission: &Submission,
        kind: CoreKind,
        info: CoreInfo,
    ) -> Result<Core, DeviceError> {
        let pooled = state
            .memories
            .iter()
            .rposition(|(pooled, _)| *pooled == kind);
        let mut memory = match pooled {
            Some(place) => state.memories.swap_remove(place).1,
            None => CoreMemory::new(&submission.launch.memory_plan(kind)).map_err(|error| {
                DeviceError::Host {
                    what: "a core's memories".to_owned(),
                    reason: error.to_string(),
                }
            })?,
        };
        if self.options.poison {
            memory.fill(0xa5);
        }
        let path = |seed| {
            let place =
                u64::from(info.block_idx) * 4 + u64::from(info.subblock_idx * 2 + info.is_aic);
            Rng::for_path(&[seed, submission.launch.rank.into(), place])
        };
        let preempt = self.options.seed.map(path);
        Ok(Core::new(
            info,
            kind,
            Arc::clone(&submission.launch),
            memory,
            preempt,
        ))
    }

    fn work(&self) {
        let mut runs = 0;
        while let Some(task) = self.next(&mut runs) {
            self.run(task);
        }
    }

    /// The next core to run, or `None` at the end.
    fn next(&self, runs: &mut u32) -> Option<Task> {
        let mut spins = 0;
        let mut state = self.lock();
        loop {
            if state.shutdown && state.launches.is_empty() {
                return None;
            }
            *runs = runs.wrapping_add(1);
            if state.ready.is_empty() || runs.is_multiple_of(RUNS_PER_LOOK) || state.rng.is_some() {
                state.wake_satisfied();
            }
            if let Some(task) = state.pick() {
                state.running += 1;
                return Some(task);
            }
            if state.running == 0 {
                self.check_stall(&mut state);
            }
            state = self.idle(state, &mut spins);
        }
    }

    fn idle<'a>(&'a self, state: MutexGuard<'a, State>, spins: &mut u32) -> MutexGuard<'a, State> {
        if state.waiting.is_empty() {
            let state = self.changed.wait(state);
            return state.unwrap_or_else(PoisonError::into_inner);
        }
        if *spins < IDLE_SPINS {
            *spins += 1;
            drop(state);
            for _ in 0..50 {
                std::hint::spin_loop();
            }
            return self.lock();
        }
        let waited = self.changed.wait_timeout(state, IDLE_SLEEP);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Every core waits: is it in vain?
    fn check_stall(&self, state: &mut State) {
        state.drop_failed();
        if state.waiting.is_empty() || !state.ready.is_empty() {
            return;
        }
        let all_launched = state.launches.len() >= self.options.num_devices;
        if all_launched && !self.options.has_outside_peers {
            let report = stall_report(&state.waiting);
            state.fail_all(&DeviceError::Deadlock { report });
            return;
        }
        for launch in &state.launches {
            if let Some(reason) = launch.peer_failure() {
                launch.fail(reason);
            }
        }
        let deadline = self.options.deadline;
        let late = |task: &WaitingTask| task.since.elapsed() > deadline;
        if state.waiting.iter().any(late) {
            let report = stall_report(&state.waiting);
            state.fail_all(&DeviceError::Deadline {
                waited: deadline,
                report,
            });
        }
        state.drop_failed();
    }

    fn run(&self, mut task: Task) {
        let mut result = CoroutineResult::Yield(Pause::Failed);
        if !task.core.launch.has_failed() {
            task.core.enter();
            result = task.coroutine.resume(());
        }
        let mut state = self.lock();
        state.running -= 1;
        if task.core.launch.has_failed() {
            state.retire(task);
        } else {
            match result {
                CoroutineResult::Yield(Pause::Yield) => state.ready.push_back(task),
                CoroutineResult::Yield(Pause::Wait(wait)) => state.waiting.push(WaitingTask {
                    task,
                    wait,
                    since: Instant::now(),
                }),
                CoroutineResult::Yield(Pause::Failed) | CoroutineResult::Return(()) => {
                    state.retire(task);
                }
            }
        }
    }
}

impl State {
    fn pick(&mut self) -> Option<Task> {
        match &mut self.rng {
            Some(rng) if !self.ready.is_empty() => {
                let place = rng.below(self.ready.len() as u64) as usize;
                self.ready.swap_remove_back(place)
            }
            _ => self.ready.pop_front(),
        }
    }

    fn wake_satisfied(&mut self) {
        let mut place = 0;
        while place < self.waiting.len() {
            if self.waiting[place].wait.holds() {
                let woken = self.waiting.swap_remove(place);
                self.ready.push_back(woken.task);
            } else {
                place += 1;
            }
        }
    }

    fn fail_all(&mut self, error: &DeviceError) {
        for launch in &self.launches {
            launch.fail_with(error.clone());
        }
        self.drop_failed();
    }

    /// Retires the waiting cores of launches that have failed.
    fn drop_failed(&mut self) {
        let mut place = 0;
        while place < self.waiting.len() {
            if self.waiting[place].core().launch.has_failed() {
                let task = self.waiting.swap_remove(place).task;
                self.retire(task);
            } else {
                place += 1;
            }
        }
    }

    /// A core that never runs again: its stack and memories go back.
    fn retire(&mut self, mut task: Task) {
        // SAFETY: the frames on the stack are the kernel's and the instruction's that paused. Device code
        // owns nothing, and instructions hold nothing over a pause but, when they fail, the text of the
        // error, which is leaked.
        unsafe { task.coroutine.force_reset() };
        self.stacks.push(task.coroutine.into_stack());
        let core = *task.core;
        self.memories.push((core.kind, core.memory));
        if core.launch.core_ended() {
            self.launches
                .retain(|launch| !Arc::ptr_eq(launch, &core.launch));
        }
    }
}

impl Task {
    fn new(core: Core, stack: DefaultStack, submission: &Submission) -> Self {
        let mut core = Box::new(core);
        core.stack = stack.limit().get() as u64..stack.base().get() as u64;
        let (entry, args) = (submission.entry, submission.args);
        let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
            // SAFETY: this runs on the core's stack; the reference ends before the kernel starts.
            unsafe { Core::current() }.set_yielder(yielder);
            // SAFETY: whoever launched promised that `args` are what the kernel takes.
            unsafe { entry(args as *mut u8) };
            // SAFETY: as above, after the kernel has ended.
            unsafe { Core::current() }.check_flags();
        });
        Self { coroutine, core }
    }
}

/// All cores of a launch: each physical core's matrix core, then its vector cores.
fn core_infos(launch: &LaunchState) -> Vec<(CoreKind, CoreInfo)> {
    let num_subblocks = launch.cores.aiv_per_block();
    let info = |block_idx, subblock_idx, is_aic| CoreInfo {
        block_idx,
        num_blocks: launch.num_blocks,
        subblock_idx,
        num_subblocks,
        is_aic,
    };
    let mut infos = Vec::new();
    for block in 0..launch.num_blocks {
        if launch.cores.has_aic() {
            infos.push((CoreKind::Aic, info(block, 0, 1)));
        }
        infos.extend((0..num_subblocks).map(|sub| (CoreKind::Aiv, info(block, sub, 0))));
    }
    infos
}
