//! What a launch reports.

use std::collections::BTreeMap;
use std::time::Duration;

use moe_core::StageKind;

use super::log::CoreTimeline;

/// Routes that a rank's capacity dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Dropped {
    /// Rank that has no room.
    pub rank: u32,
    /// Its expert, counted globally.
    pub expert: u32,
    /// Rank whose routes they are.
    pub source: u32,
    /// How many.
    pub count: u32,
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rank,
            expert,
            source,
            count,
        } = self;
        write!(
            f,
            "rank {rank}, expert {expert}: {count} from rank {source}"
        )
    }
}

/// A stage's time in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub kind: StageKind,
    /// From the first core that began to the last that ended.
    pub span: Duration,
    /// Work of all its cores.
    pub busy: Duration,
    /// Waits of all its cores, for other cores and for other ranks.
    pub stalled: Duration,
}

/// What a launch did on one rank.
#[derive(Clone, Debug)]
pub struct LaunchReport {
    /// Tokens of the rank.
    pub num_tokens: u32,
    /// `[experts_per_rank]` routes that came for each local expert, dropped ones included.
    pub expert_token_nums: Vec<u32>,
    /// Routes that this rank had no room for.
    pub dropped: Vec<Dropped>,
    /// Time on the device, by its own clock, where it has one: without what the host does.
    pub device_time: Option<Duration>,
    /// Each stage's time, in order. Of stages that ran as kernels of their own only the span is known.
    pub stage_times: Vec<StageTime>,
    /// `[num_ranks]` longest wait of a core for each source rank; empty for stages as kernels of their own.
    pub peer_waits: Vec<Duration>,
    /// What each core did; empty for stages as kernels of their own.
    pub cores: Vec<CoreTimeline>,
}

impl LaunchReport {
    /// Routes that this rank had no room for, all together.
    #[must_use]
    pub fn num_dropped(&self) -> u64 {
        self.dropped.iter().map(|d| u64::from(d.count)).sum()
    }
}

/// What a launch took.
pub(super) struct LaunchTimes {
    /// By the device's own clock, where it has one.
    pub(super) device: Option<Duration>,
    /// Each stage's.
    pub(super) stages: Vec<StageTime>,
    /// What each core did, where that is known.
    pub(super) cores: Vec<CoreTimeline>,
}

impl LaunchTimes {
    /// Of one kernel.
    pub(super) fn fused(device: Option<Duration>, cores: Vec<CoreTimeline>) -> Self {
        Self {
            device,
            stages: fused_times(&cores),
            cores,
        }
    }

    /// Of stages that ran one after the other: each one's time on the device, where that is known, and on the host.
    pub(super) fn separate(times: &[(StageKind, Option<Duration>, Duration)]) -> Self {
        let stage = |&(kind, on_device, on_host): &(_, Option<Duration>, Duration)| StageTime {
            kind,
            span: on_device.unwrap_or(on_host),
            busy: Duration::ZERO,
            stalled: Duration::ZERO,
        };
        Self {
            device: times.iter().map(|(_, on_device, _)| *on_device).sum(),
            stages: times.iter().map(stage).collect(),
            cores: Vec::new(),
        }
    }
}

/// Times of stages by what cores logged.
fn fused_times(cores: &[CoreTimeline]) -> Vec<StageTime> {
    #[derive(Default)]
    struct Sum {
        begin: Option<u64>,
        end: u64,
        busy: u64,
        stalled: u64,
    }
    let mut sums: BTreeMap<StageKind, Sum> = BTreeMap::new();
    for work in cores.iter().flat_map(|core| &core.work) {
        let sum = sums.entry(work.stage).or_default();
        sum.begin = Some(sum.begin.map_or(work.begin, |begin| begin.min(work.begin)));
        sum.end = sum.end.max(work.end);
        sum.busy += work.busy();
        sum.stalled += work.stalled();
    }
    let time = |kind| {
        let sum = sums.remove(&kind).unwrap_or_default();
        StageTime {
            kind,
            span: Duration::from_nanos(sum.end - sum.begin.unwrap_or(sum.end)),
            busy: Duration::from_nanos(sum.busy),
            stalled: Duration::from_nanos(sum.stalled),
        }
    };
    StageKind::ALL.map(time).to_vec()
}

/// Longest wait of a core for each source rank.
pub(super) fn peer_waits(cores: &[CoreTimeline]) -> Vec<Duration> {
    let num_ranks = cores.first().map_or(0, |core| core.peer_waits.len());
    (0..num_ranks)
        .map(|rank| {
            let longest = cores.iter().map(|core| core.peer_waits[rank]).max();
            Duration::from_nanos(longest.unwrap_or(0))
        })
        .collect()
}
