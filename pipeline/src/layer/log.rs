//! What the cores of a fused launch log, and how it is read.

use megamoe_device::{Buffer, DeviceError, download};
use moe_core::soc::TICK_NANOSECONDS;
use moe_core::{Problem, StageKind};

use super::fused_args::Span;
use crate::schedule::tiling::ScheduleTiling;

/// A kind of core.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum CoreKind {
    /// Matrix core.
    Aic,
    /// Vector core.
    Aiv,
}

impl CoreKind {
    /// Name in traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aic => "AIC",
            Self::Aiv => "AIV",
        }
    }
}

/// A piece of work of a core. Times are nanoseconds of a clock that all ranks of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// The stage.
    pub stage: StageKind,
    /// The local expert, where the stage goes by experts.
    pub expert: Option<u32>,
    /// When the core turned to it.
    pub asked: u64,
    /// When its input was there.
    pub begin: u64,
    /// When it was done.
    pub end: u64,
    /// Time between begin and end in which it waited for other ranks.
    pub peer_wait: u64,
    /// Time between begin and end in which it waited for other cores, at a barrier.
    pub barrier_wait: u64,
}

impl Work {
    fn of(span: &Span) -> Option<Self> {
        Some(Self {
            stage: *StageKind::ALL.get(span.stage as usize)?,
            expert: (span.expert != u32::MAX).then_some(span.expert),
            asked: span.asked * TICK_NANOSECONDS,
            begin: span.begin * TICK_NANOSECONDS,
            end: span.end * TICK_NANOSECONDS,
            peer_wait: span.peer_wait * TICK_NANOSECONDS,
            barrier_wait: span.barrier_wait * TICK_NANOSECONDS,
        })
    }

    /// Nanoseconds in which it waited for other cores.
    #[must_use]
    pub fn waited_for_cores(&self) -> u64 {
        self.begin - self.asked + self.barrier_wait
    }

    /// Nanoseconds in which it waited for other cores or ranks.
    #[must_use]
    pub fn stalled(&self) -> u64 {
        self.waited_for_cores() + self.peer_wait
    }

    /// Nanoseconds in which it worked.
    #[must_use]
    pub fn busy(&self) -> u64 {
        (self.end - self.begin).saturating_sub(self.peer_wait + self.barrier_wait)
    }
}

/// What one core did in a launch.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CoreTimeline {
    /// What it is.
    pub kind: CoreKind,
    /// Which one of its kind.
    pub idx: u32,
    /// Its work, in order.
    pub work: Vec<Work>,
    /// Nanoseconds that it waited for each source rank.
    pub peer_waits: Vec<u64>,
}

/// Where logs lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    num_aic: u32,
    num_aiv: u32,
    num_ranks: u32,
    max_spans: u32,
}

/// Logs start at cache lines.
const LINE_BYTES: u64 = 64;

impl Layout {
    pub(super) fn new(problem: &Problem, schedule: &ScheduleTiling) -> Self {
        // A matrix core shares each expert twice; a vector core three times and may announce it, besides
        // FrontReorder and two parts of Unpermute.
        Self {
            num_aic: schedule.num_aic,
            num_aiv: schedule.num_aiv,
            num_ranks: problem.num_ranks(),
            max_spans: 4 * problem.experts_per_rank() + 3,
        }
    }

    pub(super) fn max_spans(&self) -> u32 {
        self.max_spans
    }

    fn header_bytes(&self) -> u64 {
        8 * (1 + u64::from(self.num_ranks))
    }

    pub(super) fn bytes_per_core(&self) -> u64 {
        let spans = u64::from(self.max_spans) * size_of::<Span>() as u64;
        (self.header_bytes() + spans).next_multiple_of(LINE_BYTES)
    }

    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.num_aic + self.num_aiv) * self.bytes_per_core()
    }

    pub(super) fn read(&self, log: &dyn Buffer) -> Result<Vec<CoreTimeline>, DeviceError> {
        // One copy: from an NPU each costs more than its bytes.
        let words: Vec<u64> = download(log, (self.bytes() / 8) as usize)?;
        let logs = words.chunks_exact((self.bytes_per_core() / 8) as usize);
        Ok((0..)
            .zip(logs)
            .map(|(core, log)| self.core(core, log))
            .collect())
    }

    /// What core number `core` of its kinds logged: how many spans, its waits for each rank, the spans.
    fn core(&self, core: u32, log: &[u64]) -> CoreTimeline {
        let (kind, idx) = if core < self.num_aic {
            (CoreKind::Aic, core)
        } else {
            (CoreKind::Aiv, core - self.num_aic)
        };
        let (header, spans) = log.split_at((self.header_bytes() / 8) as usize);
        let num_spans = header[0].min(self.max_spans.into()) as usize;
        let spans = spans.chunks_exact(size_of::<Span>() / 8).take(num_spans);
        let spans = spans.map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)));
        CoreTimeline {
            kind,
            idx,
            work: spans.filter_map(|span| Work::of(&span)).collect(),
            peer_waits: header[1..].iter().map(|w| w * TICK_NANOSECONDS).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_within_work_are_no_work() {
        let span = Span {
            asked: 10,
            begin: 13,
            end: 40,
            peer_wait: 4,
            barrier_wait: 7,
            stage: 0,
            expert: u32::MAX,
        };
        let work = Work::of(&span).unwrap();
        assert_eq!(work.waited_for_cores(), (3 + 7) * TICK_NANOSECONDS);
        assert_eq!(work.stalled(), (3 + 7 + 4) * TICK_NANOSECONDS);
        assert_eq!(work.busy(), (27 - 4 - 7) * TICK_NANOSECONDS);
        assert_eq!(
            work.stalled() + work.busy(),
            (span.end - span.asked) * TICK_NANOSECONDS
        );
    }
}
