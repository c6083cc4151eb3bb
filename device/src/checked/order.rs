//! Flags, barriers, signals, and the scalar unit's cache.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::State;
use super::clock::{AGENTS, Agent, Clock};
use super::core::{CACHE_LINE, CoreCheck, Granted, Running, STORE_LINE};
use super::finding::Check;
use super::judge::{Fault, Space};
use super::shadow::{Met, Shadow};

impl CoreCheck {
    pub(crate) fn set_flag(&mut self, source: usize, target: usize, event: usize) {
        let Some(pipe) = Agent::of_pipe(source) else {
            return;
        };
        self.issue(pipe);
        let clock = self.knows_with_itself(pipe);
        self.flags.insert((source, target, event), clock);
    }

    pub(crate) fn wait_flag(&mut self, source: usize, target: usize, event: usize) {
        let flag = self.flags.remove(&(source, target, event));
        if let (Some(clock), Some(_)) = (flag, Agent::of_pipe(target)) {
            self.known[target].join(&clock);
            if target == Agent::S as usize {
                self.scalar_changed();
            }
        }
    }

    pub(crate) fn pipe_barrier(&mut self, pipe: usize) {
        if pipe == Agent::V as usize {
            let own = self.agent(Agent::V);
            self.known[pipe].set(own, self.ticks[pipe]);
        }
        if Agent::of_pipe(pipe).is_some() {
            return;
        }
        let mut all = Clock::default();
        for pipe in Agent::PIPES {
            all.join(&self.knows_with_itself(pipe));
        }
        self.known.fill(all);
        self.drained_writes = self.ticks[Agent::ScalarWrites as usize];
        self.scalar_changed();
    }

    /// What the scalar unit knows to be done of this core's work, others see once they meet it.
    pub(crate) fn dsb(&mut self) {
        self.is_writing_back = false;
        let clock = self.knows_with_itself(Agent::S);
        for agent in 0..AGENTS as u32 {
            self.published[agent as usize] = clock.get(self.base + agent);
        }
    }

    /// Writes a cache line back and forgets it.
    pub(crate) fn dcci(&mut self, address: u64) {
        let line = address / CACHE_LINE;
        self.cache.remove(&line);
        if !self.dirty.remove(&line) {
            return;
        }
        self.is_writing_back = true;
        let writes = Agent::ScalarWrites;
        self.ticks[writes as usize] += 1;
        let (own, time) = (self.agent(writes), self.ticks[writes as usize]);
        let bytes = line * CACHE_LINE..(line + 1) * CACHE_LINE;
        self.checker.lock().memory.change_writes(bytes, |write| {
            if write.agent == own && write.is_cached {
                write.is_cached = false;
                write.time = time;
            }
        });
    }

    /// All lines.
    pub(crate) fn dcci_all(&mut self) {
        let lines: BTreeSet<u64> = self.cache.keys().chain(&self.dirty).copied().collect();
        for line in lines {
            self.dcci(line * CACHE_LINE);
        }
    }

    /// What others learn when they meet this core.
    fn release(&self) -> Clock {
        let mut clock = self.known[Agent::S as usize].clone();
        for (agent, time) in (0..).zip(self.published) {
            clock.set(self.base + agent, time);
        }
        clock
    }

    /// What this core learns when it meets others.
    fn acquire(&mut self, clock: &Clock) {
        self.known[Agent::S as usize].join(clock);
        self.scalar_changed();
    }

    /// Arrives at a barrier of `num_cores`; what to leave it with.
    pub(crate) fn arrive(&mut self, kind: u32, num_cores: u32) -> usize {
        let clock = self.release();
        let mut state = self.checker.lock();
        let meeting = state.meetings.entry((self.launch_id, kind)).or_default();
        let round = (meeting.arrived / num_cores.max(1)) as usize;
        meeting.arrived += 1;
        if meeting.known.len() <= round {
            meeting.known.push(Clock::default());
        }
        meeting.known[round].join(&clock);
        round
    }

    pub(crate) fn leave(&mut self, kind: u32, round: usize) {
        let clock = {
            let state = self.checker.lock();
            let meeting = state.meetings.get(&(self.launch_id, kind));
            meeting.and_then(|meeting| meeting.known.get(round).cloned())
        };
        if let Some(clock) = clock {
            self.acquire(&clock);
        }
    }

    /// `TNOTIFY`.
    pub(crate) fn notify(&mut self, address: u64) {
        let clock = self.release();
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let running = self.start(&mut state, "TNOTIFY", Agent::S);
        let range = address..address + 4;
        if self.is_allowed(&mut state, &running, &range, true) {
            self.meet_word(&mut state, &running, &range);
            state.signals.entry(address).or_default().join(&clock);
        }
    }

    /// A word that is used atomically: it must not be written otherwise at the same time.
    fn meet_word(&mut self, state: &mut State, running: &Running, range: &Range<u64>) {
        let mut met = Vec::new();
        let note = |piece: Range<u64>, with: Met| met.push((piece, with));
        state.memory.read(range.clone(), running.access, note);
        for (piece, with) in met {
            let Met::Write(write) = with else {
                continue;
            };
            let is_granted = self.is_granted(running, &write, piece.start);
            if !self.is_ordered(running, &write) && !is_granted {
                let fault = self.race("a signal's word is written without order", &write, running);
                self.report(state, running, &fault, (&Space::Global, &piece));
            }
        }
    }

    /// Before `TWAIT` and `TTEST`: the word must be there.
    pub(crate) fn looks_at(&mut self, address: u64, name: &'static str) {
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let running = self.start(&mut state, name, Agent::S);
        self.is_allowed(&mut state, &running, &(address..address + 4), false);
    }

    /// `TWAIT` and `TTEST` that came true.
    pub(crate) fn saw(&mut self, address: u64, name: &'static str) {
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let running = self.start(&mut state, name, Agent::S);
        let range = address..address + 4;
        self.take_line(&state, &running, address);
        self.meet_word(&mut state, &running, &range);
        let signal = state.signals.get(&address).cloned();
        drop(state);
        if let Some(clock) = signal {
            self.acquire(&clock);
        }
    }

    /// A flag that came with its line: the line's last word, stored and not notified.
    fn take_line(&mut self, state: &State, running: &Running, address: u64) {
        let write = state
            .memory
            .last_write(address)
            .filter(|write| !write.is_host());
        let Some(write) = write.filter(|_| (address + 4).is_multiple_of(STORE_LINE)) else {
            return;
        };
        if self.is_ordered(running, &write) {
            return;
        }
        self.events += 1;
        let granted = Granted {
            agent: write.agent,
            time: write.time,
            at: self.events,
        };
        self.granted.insert(address / STORE_LINE, granted);
    }

    /// A flag for the other cores of the physical core, once a pipe is done: physical core, flag, and which of its cores
    /// sets it.
    pub(crate) fn cross_set(&mut self, pipe: usize, (block, flag, from): (u32, u32, u32)) {
        let Some(pipe) = Agent::of_pipe(pipe) else {
            return;
        };
        self.issue(pipe);
        let clock = self.knows_with_itself(pipe);
        let key = (self.launch_id, block, flag, from);
        self.checker
            .lock()
            .crossings
            .entry(key)
            .or_default()
            .push(clock);
    }

    /// The `nth` of them, from 1.
    pub(crate) fn cross_wait(&mut self, (block, flag, from): (u32, u32, u32), nth: usize) {
        let clock = {
            let state = self.checker.lock();
            let sets = state.crossings.get(&(self.launch_id, block, flag, from));
            sets.and_then(|sets| sets.get(nth - 1).cloned())
        };
        if let Some(clock) = clock {
            self.acquire(&clock);
        }
    }

    /// The core has ended.
    pub(crate) fn end(&mut self) {
        self.report_dirty_lines();
        if self.is_writing_back {
            self.say(
                Check::Racecheck,
                "the kernel ends while a cache line is written back: dsb after dcci",
            );
        }
        self.pipe_barrier(7);
        let clock = self.knows_with_itself(Agent::S);
        let mut state = self.checker.lock();
        state.done.entry(self.rank).or_default().join(&clock);
        let own: usize = self.memories.iter().map(Shadow::bytes).sum();
        state.peak_bytes = state.peak_bytes.max(state.memory.bytes() + own);
    }

    fn report_dirty_lines(&mut self) {
        let Some(&line) = self.dirty.iter().next() else {
            return;
        };
        let checker = Arc::clone(&self.checker);
        let mut state = checker.lock();
        let range = line * CACHE_LINE..(line + 1) * CACHE_LINE;
        let mut write = None;
        state
            .memory
            .change_writes(range.clone(), |found| write = write.or(Some(*found)));
        let running = self.start(&mut state, "end of the kernel", Agent::S);
        let fault = Fault {
            check: Check::Racecheck,
            what: "a scalar write that is never written back",
            with: write.as_ref(),
            hint: "dcci of its line before the kernel ends".to_owned(),
        };
        self.report(&mut state, &running, &fault, (&Space::Global, &range));
    }
}
