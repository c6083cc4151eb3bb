//! Checked mode: proves the flags, not only the results.
//!
//! On the NPU the pipes of a core run on their own, and cores see each other's memory late. Here everything runs in one
//! order, so a missing flag does no harm, and no test of results finds it. In checked mode every instruction says which
//! bytes it reads and writes; vector clocks say what is ordered before it; what is not is reported.
//!
//! | orders | what |
//! |---|---|
//! | a pipe's own instructions | the earlier before the later; on the vector pipe only across `pipe_barrier` or a flag |
//! | `set_flag`, `wait_flag` | what the one pipe did before what the other does |
//! | `pipe_barrier(PIPE_ALL)` | all pipes of the core |
//! | issue | what the scalar unit has read or waited for before what it issues later; not what it wrote |
//! | `SYNCALL`, signals, cross-core flags | what the core did up to its last `dsb`, and what it knew of others |
//! | the last word of a line of 512 bytes, once waited for | the line that was stored with it |
//! | `dcci` | writes back what the scalar unit wrote, and lets it see what others wrote meanwhile |
//! | the end of a launch | all of it before the rank's next launch |
//!
//! Kernels are compiled once more for it, so that loads and stores of the scalar unit are seen too (`hooks.cpp`).

mod clock;
mod core;
mod finding;
mod hooks;
mod images;
mod instruction;
mod judge;
mod kernels;
mod order;
mod shadow;
mod sites;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use clock::Agent;
use clock::{AGENTS, Clock};
pub(crate) use core::CoreCheck;
use finding::Kind;
pub use finding::{Check, Finding, Party};
use images::Images;
pub(crate) use instruction::Instruction;
pub use kernels::CheckedKernels;
use shadow::{Access, Shadow};
use sites::Sites;

/// Findings that are kept; a broken loop makes many.
const MAX_FINDINGS: usize = 200;

/// Says which rank may write a word of its window's bytes, by offset; `None` where that is not fixed.
pub type WriterOf = Arc<dyn Fn(u64) -> Option<u32> + Send + Sync>;

/// Global memory that kernels may use.
#[derive(Clone)]
struct Region {
    end: u64,
    rank: u32,
    /// For windows: who may write where.
    writer_of: Option<WriterOf>,
}

/// A barrier of cores: what those who came know, and how many have.
#[derive(Debug, Default)]
struct Meeting {
    arrived: u32,
    known: Vec<Clock>,
}

#[derive(Default)]
pub(crate) struct State {
    sites: Sites,
    images: Images,
    memory: Shadow,
    regions: BTreeMap<u64, Region>,
    /// What is known to who sees a signal, by its address.
    signals: HashMap<u64, Clock>,
    meetings: HashMap<(u64, u32), Meeting>,
    /// What each set of a cross-core flag carries.
    crossings: HashMap<CrossKey, Vec<Clock>>,
    /// What is known at the end of each rank's launches.
    done: HashMap<u32, Clock>,
    /// Launches of the operator on each rank.
    launches: HashMap<u32, u32>,
    /// Kernels launched so far.
    numbered: u64,
    cores: Vec<(u32, String)>,
    findings: BTreeSet<Finding>,
    kinds: HashSet<Kind>,
    instructions: u64,
    peak_bytes: usize,
}

/// Launch, physical core, flag, and which of its cores sets it.
type CrossKey = (u64, u32, u32, u32);

/// Checks the launches of all ranks that share it.
pub struct Checker {
    state: Mutex<State>,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checker").finish_non_exhaustive()
    }
}

/// What a checked run came to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// Faults, in the order of their checks.
    pub findings: Vec<Finding>,
    /// Instructions that were checked.
    pub instructions: u64,
    /// Bytes that the checks took at most.
    pub peak_bytes: u64,
}

impl Checker {
    /// One that has seen nothing.
    #[must_use]
    #[allow(clippy::new_ret_no_self, reason = "devices share it")]
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory of a rank's window, which kernels of all ranks may use. Zero at first, which counts as nobody's.
    pub fn add_window(&self, range: Range<u64>, rank: u32, writer_of: WriterOf) {
        let region = Region {
            end: range.end,
            rank,
            writer_of: Some(writer_of),
        };
        self.lock().regions.insert(range.start, region);
    }

    pub(crate) fn add_buffer(&self, range: Range<u64>, rank: u32) {
        let region = Region {
            end: range.end,
            rank,
            writer_of: None,
        };
        self.lock().regions.insert(range.start, region);
    }

    pub(crate) fn remove_buffer(&self, range: Range<u64>) {
        let mut state = self.lock();
        state.regions.remove(&range.start);
        state.memory.forget(range);
    }

    /// The host wrote these bytes, between launches: they are what kernels may read in any launch.
    pub(crate) fn host_wrote(&self, range: Range<u64>) {
        self.lock().memory.write(range, Access::HOST, |_, _| ());
    }

    /// The host let these bytes be undefined.
    pub(crate) fn host_forgot(&self, range: Range<u64>) {
        self.lock().memory.forget(range);
    }

    /// A number for a kernel's launch, to tell its meetings from those of others.
    pub(crate) fn number_launch(&self) -> u64 {
        let mut state = self.lock();
        state.numbered += 1;
        state.numbered
    }

    /// The rank's next launch of the operator: what kernels left in memory before is stale.
    pub(crate) fn begin(&self, rank: u32) {
        *self.lock().launches.entry(rank).or_insert(0) += 1;
    }

    /// What was found so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let mut state = self.lock();
        state.measure();
        let mut findings = BTreeMap::new();
        for mut finding in state.findings.iter().cloned() {
            sites::resolve(&mut finding.by.place);
            if let Some(with) = &mut finding.with {
                sites::resolve(&mut with.place);
            }
            findings.entry(finding.kind()).or_insert(finding);
        }
        let mut findings: Vec<Finding> = findings.into_values().collect();
        findings.sort();
        Verdict {
            findings,
            instructions: state.instructions,
            peak_bytes: state.peak_bytes as u64,
        }
    }

    /// What was found, and buffers that are still there: all devices are gone by now.
    #[must_use]
    pub fn finish(&self) -> Verdict {
        let leaks: Vec<_> = {
            let state = self.lock();
            let buffers = state
                .regions
                .iter()
                .filter(|(_, region)| region.writer_of.is_none());
            buffers
                .map(|(&start, region)| (start..region.end, region.rank))
                .collect()
        };
        for (range, rank) in leaks {
            let finding = Finding {
                check: Check::Memcheck,
                what: "global memory is not given back",
                kernel: "the host".to_owned(),
                by: Party {
                    rank,
                    core: "host".to_owned(),
                    pipe: "S",
                    instruction: "alloc",
                    place: "the host".to_owned(),
                },
                with: None,
                memory: format!("{} bytes at {:#x}", range.end - range.start, range.start),
                hint: "drop the buffer before its device".to_owned(),
            };
            self.lock().add(finding);
        }
        self.verdict()
    }
}

impl State {
    /// Notes a finding, if none is like it: the same two instructions on another core, or other bytes.
    fn add(&mut self, finding: Finding) {
        let is_new = self.kinds.insert(finding.kind());
        if is_new && self.findings.len() < MAX_FINDINGS {
            self.findings.insert(finding);
        }
    }

    /// A number for a new core; its agents are the next ones.
    fn new_core(&mut self, rank: u32, name: &str) -> u32 {
        let known = self.cores.iter().position(|(r, n)| *r == rank && n == name);
        let place = known.unwrap_or_else(|| {
            self.cores.push((rank, name.to_owned()));
            self.cores.len() - 1
        });
        place as u32 * AGENTS as u32
    }

    /// The region that holds an address.
    fn region_at(&self, address: u64) -> Option<(u64, &Region)> {
        let (&start, region) = self.regions.range(..=address).next_back()?;
        (address < region.end).then_some((start, region))
    }

    fn party(&self, access: &Access) -> Party {
        if access.is_host() {
            return Party {
                rank: 0,
                core: "host".to_owned(),
                pipe: "S",
                instruction: "write",
                place: "the host".to_owned(),
            };
        }
        let (rank, core) = self.cores[access.agent as usize / AGENTS].clone();
        let site = self.sites.get(access.site);
        let agent = access.agent as usize % AGENTS;
        Party {
            rank,
            core,
            pipe: agent_of(agent).pipe_name(),
            instruction: site.name,
            place: sites::unresolved(site.return_address),
        }
    }

    /// Where an address is, in words.
    fn describe(&self, range: &Range<u64>) -> String {
        let len = range.end - range.start;
        match self.region_at(range.start) {
            Some((start, region)) => {
                let kind = if region.writer_of.is_some() {
                    "window"
                } else {
                    "buffer"
                };
                format!(
                    "{len} bytes from {} on of a {kind} of {} bytes of rank {}",
                    range.start - start,
                    region.end - start,
                    region.rank
                )
            }
            None => format!("{len} bytes at {:#x} of global memory", range.start),
        }
    }

    fn measure(&mut self) {
        let signals: usize = self.signals.values().map(Clock::bytes).sum();
        let bytes = self.memory.bytes() + signals;
        self.peak_bytes = self.peak_bytes.max(bytes);
    }
}

fn agent_of(place: usize) -> Agent {
    Agent::PIPES
        .get(place)
        .copied()
        .unwrap_or(Agent::ScalarWrites)
}
