//! What the cores of all ranks did in a fused launch: as a table, as a trace, as a picture.
//!
//! | file | what it makes |
//! |---|---|
//! | [`overlap`] | busy and stalled time of each stage, and how much communication matrix work hides |
//! | [`chrome`] | the trace-event format that Perfetto and Chrome open |
//! | [`envelope`] | an SVG of when each expert is in which stage |

pub mod chrome;
pub mod envelope;
pub mod overlap;

use moe_core::StageKind;

use crate::layer::{CoreTimeline, Work};

/// What the cores of each rank did in one launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Cores of each rank; none where a rank did not log.
    pub ranks: Vec<Vec<CoreTimeline>>,
}

impl Timeline {
    /// Whether nothing was logged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranks.iter().all(Vec::is_empty)
    }

    /// Nanosecond at which the first core turned to its work.
    #[must_use]
    pub fn start(&self) -> u64 {
        let works = self.ranks.iter().flatten().flat_map(|core| &core.work);
        works.map(|work| work.asked).min().unwrap_or(0)
    }
}

/// All work of a rank.
fn works(cores: &[CoreTimeline]) -> impl Iterator<Item = &Work> {
    cores.iter().flat_map(|core| &core.work)
}

/// Stages that multiply.
fn is_matrix(stage: StageKind) -> bool {
    matches!(stage, StageKind::Gmm1 | StageKind::Gmm2)
}

/// Stages whose work is to move rows between ranks.
#[must_use]
pub fn is_communication(stage: StageKind) -> bool {
    matches!(stage, StageKind::Dispatch | StageKind::Combine)
}

/// The stage whose work on an expert another waits for.
fn producer(stage: StageKind) -> Option<StageKind> {
    match stage {
        StageKind::FrontReorder | StageKind::Unpermute => None,
        StageKind::Dispatch => Some(StageKind::FrontReorder),
        StageKind::Gmm1 => Some(StageKind::Dispatch),
        StageKind::Swiglu => Some(StageKind::Gmm1),
        StageKind::Gmm2 => Some(StageKind::Swiglu),
        StageKind::Combine => Some(StageKind::Gmm2),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::layer::CoreKind;

    /// `(stage, expert, asked, begin, end)`.
    type Step = (StageKind, Option<u32>, u64, u64, u64);

    fn core(kind: CoreKind, steps: &[Step]) -> CoreTimeline {
        let work = |&(stage, expert, asked, begin, end): &Step| Work {
            stage,
            expert,
            asked,
            begin,
            end,
            peer_wait: 0,
            barrier_wait: 0,
        };
        CoreTimeline {
            kind,
            idx: 0,
            work: steps.iter().map(work).collect(),
            peer_waits: vec![0],
        }
    }

    /// One rank, one core of each kind, two experts: Dispatch of expert 1 runs beside GMM1 of expert 0,
    /// Combine of expert 0 beside GMM2 of expert 1.
    pub(crate) fn small() -> Timeline {
        use StageKind::*;
        let aic = core(
            CoreKind::Aic,
            &[
                (Gmm1, Some(0), 1000, 2000, 4000),
                (Gmm1, Some(1), 4000, 4000, 6000),
                (Gmm2, Some(0), 6000, 6000, 8000),
                (Gmm2, Some(1), 8000, 8000, 9000),
            ],
        );
        let aiv = core(
            CoreKind::Aiv,
            &[
                (FrontReorder, None, 1000, 1000, 1500),
                (Dispatch, Some(0), 1500, 1500, 2000),
                (Dispatch, Some(1), 2000, 2000, 3000),
                (Swiglu, Some(0), 3000, 4000, 5000),
                (Swiglu, Some(1), 5000, 6000, 7000),
                (Combine, Some(0), 7000, 8000, 8500),
                (Combine, Some(1), 8500, 9000, 9500),
                (Unpermute, None, 9500, 9500, 10000),
            ],
        );
        Timeline {
            ranks: vec![vec![aic, aiv]],
        }
    }
}
