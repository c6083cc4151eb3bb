//! How well a launch overlaps: of each stage the busy and the stalled time, and of the communication the part
//! that lies beside matrix work.

use moe_core::StageKind;
use serde::Serialize;

use super::{Timeline, is_communication, is_matrix, works};
use crate::layer::CoreTimeline;

/// Seconds of one stage over all cores and ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageLoad {
    /// The stage.
    pub stage: StageKind,
    /// Cores that took part.
    pub cores: usize,
    /// Seconds of work, all cores together.
    pub busy: f64,
    /// Seconds of waits for other cores, all cores together.
    pub waits_for_cores: f64,
    /// Seconds of waits for other ranks, all cores together.
    pub waits_for_ranks: f64,
}

/// A launch's overlap; means over ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// Each stage.
    pub stages: Vec<StageLoad>,
    /// Seconds from the first core that turned to work to the last that was done.
    pub launch: f64,
    /// Seconds in which a core of the rank multiplied.
    pub matrix: f64,
    /// Seconds in which a core of the rank moved rows: Dispatch or Combine.
    pub communication: f64,
    /// Part of those seconds in which a core of the rank multiplied.
    pub hidden: f64,
    /// Seconds before the first multiplication.
    pub head: f64,
    /// Seconds after the last.
    pub tail: f64,
}

const NANO: f64 = 1e-9;

impl Overlap {
    /// The overlap of a launch; `None` when nothing was logged.
    #[must_use]
    pub fn of(timeline: &Timeline) -> Option<Self> {
        let ranks: Vec<RankOverlap> = timeline.ranks.iter().filter_map(|r| rank(r)).collect();
        if ranks.is_empty() {
            return None;
        }
        let mean = |value: fn(&RankOverlap) -> u64| {
            let sum: f64 = ranks.iter().map(|rank| value(rank) as f64).sum();
            sum * NANO / ranks.len() as f64
        };
        Some(Self {
            stages: StageKind::ALL.map(|stage| load(timeline, stage)).to_vec(),
            launch: mean(|rank| rank.launch),
            matrix: mean(|rank| rank.matrix),
            communication: mean(|rank| rank.communication),
            hidden: mean(|rank| rank.hidden),
            head: mean(|rank| rank.head),
            tail: mean(|rank| rank.tail),
        })
    }

    /// Share of communication that is hidden behind matrix work, 0 to 1.
    #[must_use]
    pub fn hidden_share(&self) -> f64 {
        if self.communication > 0.0 {
            self.hidden / self.communication
        } else {
            0.0
        }
    }
}

fn load(timeline: &Timeline, stage: StageKind) -> StageLoad {
    let mut load = StageLoad {
        stage,
        cores: 0,
        busy: 0.0,
        waits_for_cores: 0.0,
        waits_for_ranks: 0.0,
    };
    for core in timeline.ranks.iter().flatten() {
        let mut takes_part = false;
        for work in core.work.iter().filter(|work| work.stage == stage) {
            takes_part = true;
            load.busy += work.busy() as f64 * NANO;
            load.waits_for_cores += work.waited_for_cores() as f64 * NANO;
            load.waits_for_ranks += work.peer_wait as f64 * NANO;
        }
        load.cores += usize::from(takes_part);
    }
    load
}

struct RankOverlap {
    launch: u64,
    matrix: u64,
    communication: u64,
    hidden: u64,
    head: u64,
    tail: u64,
}

fn rank(cores: &[CoreTimeline]) -> Option<RankOverlap> {
    let start = works(cores).map(|work| work.asked).min()?;
    let end = works(cores).map(|work| work.end).max()?;
    let matrix = union(cores, is_matrix);
    let communication = union(cores, is_communication);
    Some(RankOverlap {
        launch: end - start,
        matrix: length(&matrix),
        communication: length(&communication),
        hidden: length(&intersection(&matrix, &communication)),
        head: matrix.first().map_or(end, |first| first.0) - start,
        tail: end - matrix.last().map_or(end, |last| last.1),
    })
}

type Interval = (u64, u64);

/// Times in which some core worked on one of the stages, as disjoint intervals in order.
fn union(cores: &[CoreTimeline], is_wanted: fn(StageKind) -> bool) -> Vec<Interval> {
    let wanted = works(cores).filter(|work| is_wanted(work.stage));
    let mut all: Vec<Interval> = wanted.map(|work| (work.begin, work.end)).collect();
    all.sort_unstable();
    let mut merged: Vec<Interval> = Vec::new();
    for (begin, end) in all {
        match merged.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((begin, end)),
        }
    }
    merged
}

fn intersection(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let common = |x: &Interval, y: &Interval| (x.0.max(y.0), x.1.min(y.1));
    a.iter()
        .flat_map(|x| b.iter().map(move |y| common(x, y)))
        .filter(|(begin, end)| begin < end)
        .collect()
}

fn length(intervals: &[Interval]) -> u64 {
    intervals.iter().map(|(begin, end)| end - begin).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    #[test]
    fn communication_beside_matrix_work_is_hidden() {
        let overlap = Overlap::of(&small()).unwrap();
        let close = |value: f64, micro: f64| (value * 1e6 - micro).abs() < 1e-9;
        assert!(close(overlap.launch, 9.0) && close(overlap.matrix, 7.0));
        assert!(close(overlap.communication, 2.5) && close(overlap.hidden, 1.5));
        assert!((overlap.hidden_share() - 0.6).abs() < 1e-9);
        assert!(close(overlap.head, 1.0) && close(overlap.tail, 1.0));
        let swiglu = &overlap.stages[3];
        assert!(close(swiglu.busy, 2.0) && close(swiglu.waits_for_cores, 2.0));
    }

    #[test]
    fn nothing_logged_is_no_overlap() {
        assert_eq!(Overlap::of(&Timeline::default()), None);
    }
}
