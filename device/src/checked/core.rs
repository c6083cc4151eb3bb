//! What a core's pipes know, and what its accesses meet.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::clock::{AGENTS, Agent, Clock};
use super::judge::Space;
use super::shadow::{Access, Met, Shadow};
use super::sites::Site;
use super::{Checker, State};
use crate::abi::types::Memory;

/// Bytes of a line of the scalar unit's cache.
pub(super) const CACHE_LINE: u64 = 64;
/// Bytes that appear at once to who waits for their last word.
pub(super) const STORE_LINE: u64 = 512;

/// A line in the scalar unit's cache: what was known when it was fetched.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) known: Arc<Clock>,
    pub(super) at: u64,
}

/// A line whose last word was waited for: the store that wrote it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) agent: u32,
    pub(super) time: u32,
    pub(super) at: u64,
}

impl Granted {
    /// Whether a write is of that store, or one before it.
    pub(super) fn covers(&self, write: &Access) -> bool {
        self.agent == write.agent && self.time >= write.time
    }
}

/// An instruction that is being checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(super) agent: Agent,
    pub(super) access: Access,
}

/// A core in checked mode.
pub(crate) struct CoreCheck {
    pub(super) checker: Arc<Checker>,
    pub(super) kernel: String,
    pub(super) rank: u32,
    pub(super) name: String,
    /// Number of the launch that it belongs to, to tell its meetings from others.
    pub(super) launch_id: u64,
    pub(super) launch: u32,
    pub(super) base: u32,
    /// Ticks of its agents.
    pub(super) ticks: [u32; AGENTS],
    /// What each pipe knows.
    pub(super) known: Vec<Clock>,
    /// Changes of what the scalar unit knows; and up to which each pipe has heard of them.
    pub(super) version: u64,
    heard: [u64; AGENTS],
    /// The scalar unit's writes that any later instruction sees.
    pub(super) drained_writes: u32,
    /// Own work that others see once they meet this core.
    pub(super) published: [u32; AGENTS],
    pub(super) flags: HashMap<(usize, usize, usize), Clock>,
    pub(super) memories: Vec<Shadow>,
    pub(super) cache: HashMap<u64, Fetched>,
    pub(super) dirty: BTreeSet<u64>,
    /// A line was written back, and no dsb has waited for it.
    pub(super) is_writing_back: bool,
    pub(super) granted: HashMap<u64, Granted>,
    pub(super) snapshot: Option<Arc<Clock>>,
    pub(super) events: u64,
    /// An access that must not be carried out: there is no such memory.
    pub(crate) is_lost: bool,
    /// Where in the kernel it is.
    pub(super) return_address: u64,
}

impl CoreCheck {
    pub(crate) fn new(
        checker: &Arc<Checker>,
        kernel: &str,
        (rank, name): (u32, String),
        launch_id: u64,
    ) -> Self {
        let mut state = checker.lock();
        let base = state.new_core(rank, &name);
        let launch = state.launches.get(&rank).copied().unwrap_or(1);
        let known = state.done.get(&rank).cloned().unwrap_or_default();
        let ticks = std::array::from_fn(|agent| known.get(base + agent as u32));
        drop(state);
        Self {
            checker: Arc::clone(checker),
            kernel: kernel.to_owned(),
            rank,
            name,
            launch_id,
            launch,
            base,
            ticks,
            known: vec![known; AGENTS],
            version: 1,
            heard: [0; AGENTS],
            drained_writes: ticks[Agent::ScalarWrites as usize],
            published: ticks,
            flags: HashMap::new(),
            memories: (0..7).map(|_| Shadow::default()).collect(),
            cache: HashMap::new(),
            dirty: BTreeSet::new(),
            is_writing_back: false,
            granted: HashMap::new(),
            snapshot: None,
            events: 0,
            is_lost: false,
            return_address: 0,
        }
    }

    pub(super) fn agent(&self, agent: Agent) -> u32 {
        self.base + agent as u32
    }

    pub(super) fn scalar_changed(&mut self) {
        self.version += 1;
        self.snapshot = None;
    }

    /// What a pipe knows, itself included.
    pub(super) fn knows_with_itself(&self, pipe: Agent) -> Clock {
        let mut clock = self.known[pipe as usize].clone();
        clock.set(self.agent(pipe), self.ticks[pipe as usize]);
        if pipe == Agent::S {
            let writes = Agent::ScalarWrites;
            clock.set(self.agent(writes), self.ticks[writes as usize]);
        }
        clock
    }

    /// The next instruction of an agent.
    pub(super) fn start(&mut self, state: &mut State, name: &'static str, agent: Agent) -> Running {
        self.events += 1;
        state.instructions += 1;
        if state.instructions.is_multiple_of(1 << 16) {
            state.measure();
        }
        self.issue(agent);
        let tick = &mut self.ticks[agent as usize];
        *tick += 1;
        let time = *tick;
        // The vector pipe does not wait for itself.
        if agent != Agent::V {
            let own = self.agent(agent);
            self.known[agent as usize].set(own, time);
        }
        let return_address = self.return_address;
        Running {
            agent,
            access: Access {
                agent: self.agent(agent),
                time,
                site: state.sites.number(Site {
                    name,
                    return_address,
                }),
                launch: self.launch,
                is_cached: false,
            },
        }
    }

    /// What the scalar unit knows is known to what it issues, but for its own writes.
    pub(super) fn issue(&mut self, agent: Agent) {
        let place = agent as usize;
        if !agent.is_scalar() {
            let (reads, writes) = (self.agent(Agent::S), self.agent(Agent::ScalarWrites));
            let drained = self.drained_writes.max(self.known[place].get(writes));
            self.known[place].set(reads, self.ticks[Agent::S as usize]);
            self.known[place].set(writes, drained);
        }
        if agent.is_scalar() {
            // Its writes see what its reads see.
            if agent == Agent::ScalarWrites && self.heard[place] != self.version {
                self.known[place] = self.known[Agent::S as usize].clone();
                self.heard[place] = self.version;
            }
            return;
        }
        if self.heard[place] == self.version {
            return;
        }
        self.heard[place] = self.version;
        let mut clock = self.known[Agent::S as usize].clone();
        clock.set(self.agent(Agent::ScalarWrites), self.drained_writes);
        self.known[place].join(&clock);
    }

    /// A read or write of an on-chip memory.
    pub(super) fn touch(
        &mut self,
        state: &mut State,
        running: &Running,
        memory: Memory,
        range: Range<u64>,
        is_write: bool,
    ) {
        let mut met = Vec::new();
        let shadow = &mut self.memories[memory as usize];
        let note = |piece: Range<u64>, with: Met| met.push((piece, with));
        if is_write {
            shadow.write(range, running.access, note);
        } else {
            shadow.read(range, running.access, note);
        }
        for (piece, with) in met {
            let space = Space::OnChip(memory);
            self.judge(state, running, (&space, piece), (with, is_write));
        }
    }

    /// A read or write of global memory.
    pub(super) fn touch_global(
        &mut self,
        state: &mut State,
        running: &Running,
        range: Range<u64>,
        is_write: bool,
    ) {
        if range.is_empty() || !self.is_allowed(state, running, &range, is_write) {
            return;
        }
        let mut running = *running;
        if is_write && running.agent == Agent::ScalarWrites {
            running.access.is_cached = true;
            let lines = range.start / CACHE_LINE..range.end.div_ceil(CACHE_LINE);
            self.dirty.extend(lines);
        }
        let mut met = Vec::new();
        let note = |piece: Range<u64>, with: Met| met.push((piece, with));
        if is_write {
            state.memory.write(range.clone(), running.access, note);
        } else {
            state.memory.read(range.clone(), running.access, note);
        }
        for (piece, with) in met {
            self.judge(state, &running, (&Space::Global, piece), (with, is_write));
        }
        if running.agent == Agent::S {
            self.fetch(&range);
        }
    }

    /// The scalar unit's cache has these lines from now on.
    fn fetch(&mut self, range: &Range<u64>) {
        for line in range.start / CACHE_LINE..range.end.div_ceil(CACHE_LINE) {
            if self.cache.contains_key(&line) {
                continue;
            }
            let known = match &self.snapshot {
                Some(known) => Arc::clone(known),
                None => {
                    let known = Arc::new(self.knows_with_itself(Agent::S));
                    self.snapshot = Some(Arc::clone(&known));
                    known
                }
            };
            self.cache.insert(
                line,
                Fetched {
                    known,
                    at: self.events,
                },
            );
        }
    }
}
