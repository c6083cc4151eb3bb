//! What an access meets, and what is wrong with it.

use std::ops::Range;

use super::State;
use super::clock::{AGENTS, Agent};
use super::core::{CACHE_LINE, CoreCheck, Running, STORE_LINE};
use super::finding::{Check, Finding, Party};
use super::shadow::{Access, Met};
use crate::abi::types::Memory;

/// What an access is to.
pub(super) enum Space {
    Global,
    OnChip(Memory),
}

/// What is wrong with an access.
pub(super) struct Fault<'a> {
    pub(super) check: Check,
    pub(super) what: &'static str,
    /// The earlier access that it does not go with.
    pub(super) with: Option<&'a Access>,
    pub(super) hint: String,
}

const OUTSIDE: &str = "bytes that are not there";

impl Fault<'static> {
    pub(super) fn alone(check: Check, what: &'static str, hint: impl Into<String>) -> Self {
        Self {
            check,
            what,
            with: None,
            hint: hint.into(),
        }
    }
}

impl CoreCheck {
    /// Bounds, and whose window it is.
    pub(super) fn is_allowed(
        &mut self,
        state: &mut State,
        running: &Running,
        range: &Range<u64>,
        is_write: bool,
    ) -> bool {
        let fault = self.bounds_fault(state, range, is_write);
        if let Some(fault) = &fault {
            self.report(state, running, fault, (&Space::Global, range));
            self.is_lost |= fault.what == OUTSIDE;
        }
        fault.is_none()
    }

    fn bounds_fault(
        &self,
        state: &State,
        range: &Range<u64>,
        is_write: bool,
    ) -> Option<Fault<'static>> {
        let memory = |what, hint: String| Some(Fault::alone(Check::Memcheck, what, hint));
        let Some((start, region)) = state.region_at(range.start) else {
            return memory(
                OUTSIDE,
                "it is outside of every buffer and window".to_owned(),
            );
        };
        if range.end > region.end {
            let over = range.end - region.end;
            return memory(OUTSIDE, format!("it goes {over} bytes beyond the end"));
        }
        let Some(writer_of) = &region.writer_of else {
            let hint = || {
                format!(
                    "only windows are shared: this is memory of rank {}",
                    region.rank
                )
            };
            return (region.rank != self.rank)
                .then(|| memory("another rank's memory", hint()))
                .flatten();
        };
        let writer = is_write.then(|| writer_of(range.start - start)).flatten()?;
        let what = "a part of a window that is not this rank's to write";
        (writer != self.rank)
            .then(|| memory(what, format!("rank {writer} writes there")))
            .flatten()
    }

    /// One piece of an access, and what it meets there.
    pub(super) fn judge(
        &self,
        state: &mut State,
        running: &Running,
        (space, piece): (&Space, Range<u64>),
        (with, is_write): (Met, bool),
    ) {
        let fault = match &with {
            Met::Nothing => Some(Fault::alone(
                Check::Initcheck,
                "a read of bytes that nobody wrote",
                "",
            )),
            Met::Read(read) => {
                let what = "write after read without order (WAR)";
                (!self.is_ordered(running, read)).then(|| self.race(what, read, running))
            }
            Met::Write(write) => {
                self.fault_of_write(running, write, (space, piece.start), is_write)
            }
        };
        if let Some(fault) = fault {
            self.report(state, running, &fault, (space, &piece));
        }
    }

    /// What is wrong with an access after a write.
    fn fault_of_write<'a>(
        &self,
        running: &Running,
        write: &'a Access,
        (space, at): (&Space, u64),
        is_write: bool,
    ) -> Option<Fault<'a>> {
        let is_own_scalar =
            running.agent.is_scalar() && write.agent == self.agent(Agent::ScalarWrites);
        let with = Some(write);
        if write.is_cached && !is_own_scalar {
            return Some(Fault {
                check: Check::Racecheck,
                what: "a scalar write that its core's cache still holds",
                with,
                hint: "dcci of its line, and dsb, after the write".to_owned(),
            });
        }
        let is_global = matches!(space, Space::Global);
        let is_granted = is_global && self.is_granted(running, write, at);
        if !self.is_ordered(running, write) && !is_granted {
            let what = if is_write {
                "write after write without order (WAW)"
            } else {
                "read after write without order (RAW)"
            };
            return Some(self.race(what, write, running));
        }
        if is_write || !is_global || write.is_host() {
            return None;
        }
        if !is_own_scalar && self.is_stale_line(running, write, at) {
            return Some(Fault {
                check: Check::Racecheck,
                what: "the scalar unit's cache holds an older value",
                with,
                hint: "dcci of the line between the wait and the read".to_owned(),
            });
        }
        (write.launch < self.launch).then(|| Fault {
            check: Check::Initcheck,
            what: "a read of what an earlier launch left",
            with,
            hint: String::new(),
        })
    }

    /// Whether an earlier access is known to the pipe to be done.
    pub(super) fn is_ordered(&self, running: &Running, before: &Access) -> bool {
        let same = (running.access.agent, running.access.time);
        if before.is_host() || (before.agent, before.time) == same {
            return true;
        }
        let own = [Agent::S, Agent::ScalarWrites].map(|agent| self.agent(agent));
        if running.agent.is_scalar() && own.contains(&before.agent) {
            return true;
        }
        self.known[running.agent as usize].get(before.agent) >= before.time
    }

    /// Whether a line came with its last word, which was waited for; not one that was in the cache before.
    pub(super) fn is_granted(&self, running: &Running, write: &Access, at: u64) -> bool {
        let Some(granted) = self.granted.get(&(at / STORE_LINE)) else {
            return false;
        };
        let fetched = self.cache.get(&(at / CACHE_LINE));
        let is_fresh = running.agent != Agent::S || fetched.is_none_or(|line| line.at > granted.at);
        granted.covers(write) && is_fresh
    }

    /// Whether the scalar unit reads a line that it fetched before the write was known to it.
    fn is_stale_line(&self, running: &Running, write: &Access, at: u64) -> bool {
        let line = self.cache.get(&(at / CACHE_LINE));
        let Some(line) = line.filter(|_| running.agent == Agent::S) else {
            return false;
        };
        let granted = self.granted.get(&(at / STORE_LINE));
        let was_granted =
            granted.is_some_and(|granted| granted.covers(write) && line.at > granted.at);
        line.known.get(write.agent) < write.time && !was_granted
    }

    pub(super) fn race<'a>(
        &self,
        what: &'static str,
        before: &'a Access,
        running: &Running,
    ) -> Fault<'a> {
        Fault {
            check: Check::Racecheck,
            what,
            with: Some(before),
            hint: self.flag_between(before, running),
        }
    }

    /// What would have ordered two accesses.
    fn flag_between(&self, before: &Access, running: &Running) -> String {
        let core = before.agent / AGENTS as u32 * AGENTS as u32;
        let from = super::agent_of((before.agent - core) as usize).pipe_name();
        let to = running.agent.pipe_name();
        if core != self.base {
            return format!(
                "publish_writes() (pipe_barrier(PIPE_ALL), dsb) there, then a signal or SYNCALL that this core \
                 waits for ({from} -> {to})"
            );
        }
        if from == to {
            return format!("pipe_barrier(PIPE_{to}) between them");
        }
        format!("set_flag(PIPE_{from}, PIPE_{to}, id) after the first, wait_flag before the second")
    }

    pub(super) fn report(
        &self,
        state: &mut State,
        running: &Running,
        fault: &Fault<'_>,
        (space, range): (&Space, &Range<u64>),
    ) {
        let memory = match space {
            Space::Global => state.describe(range),
            Space::OnChip(memory) => {
                let name = format!("{memory:?}").to_uppercase();
                format!("bytes {}..{} of {name}", range.start, range.end)
            }
        };
        let finding = Finding {
            check: fault.check,
            what: fault.what,
            kernel: self.kernel.clone(),
            by: state.party(&running.access),
            with: fault.with.map(|access| state.party(access)),
            memory,
            hint: fault.hint.clone(),
        };
        state.add(finding);
    }

    /// Something that the core itself found, without another.
    pub(crate) fn say(&self, check: Check, reason: &str) {
        let finding = Finding {
            check,
            what: "used as the hardware does not allow",
            kernel: self.kernel.clone(),
            by: Party {
                rank: self.rank,
                core: self.name.clone(),
                pipe: "S",
                instruction: "an instruction",
                place: super::sites::unresolved(self.return_address),
            },
            with: None,
            memory: reason.to_owned(),
            hint: String::new(),
        };
        self.checker.lock().add(finding);
    }
}
