//! What one case is measured to do, as shares of what the machine can.

use megamoe_bench::machine::Machine;
use megamoe_bench::traffic::{SCALE_BYTES, stage_bytes};
use megamoe_pipeline::layer::CoreTimeline;
use megamoe_pipeline::trace::{Timeline, is_communication};
use moe_core::routing::Load;
use moe_core::{Problem, RankInputs, StageKind};
use serde::Serialize;

use super::super::ranks::{self, RankKind, StageSet, WorldArgs, WorldRun};
use super::super::report::{self, median, ratio};
use super::super::{CliError, data};
use super::cases::BenchCase;

/// Launches before those that are timed.
pub(super) const WARMUP: u32 = 1;

/// A stage as a kernel of its own.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct StageFigure {
    /// The stage.
    pub(super) stage: StageKind,
    /// Milliseconds, mean over ranks and launches.
    pub(super) ms: f64,
    /// Bytes that it must read and write, in 1e9 per second; of stages that do not multiply, and of one rank:
    /// several share the processors, so that a rank's span holds others' work.
    pub(super) gb_per_s: Option<f64>,
    /// The same as a share of copying.
    pub(super) copy_share: Option<f64>,
}

/// Smallest, mean and largest over ranks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct OverRanks {
    /// Smallest.
    pub(super) min: f64,
    /// Mean.
    pub(super) mean: f64,
    /// Largest.
    pub(super) max: f64,
}

/// The figures of a case. Times are of the slowest rank of a launch.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// Name of the case.
    pub(super) case: String,
    /// Sizes.
    pub(super) problem: moe_core::ProblemSpec,
    /// How tokens choose experts.
    pub(super) routing: String,
    /// Timed launches.
    pub(super) launches: usize,
    /// Rows per expert, largest over mean.
    pub(super) expert_imbalance: f64,
    /// Rows per rank, largest over mean.
    pub(super) rank_imbalance: f64,
    /// Stages as kernels of their own.
    pub(super) stages: Vec<StageFigure>,
    /// Milliseconds of the layer as separate kernels, median.
    pub(super) separate_ms: f64,
    /// Milliseconds of the fused layer, median.
    pub(super) fused_ms: f64,
    /// The same, 99th percentile.
    pub(super) fused_p99_ms: f64,
    /// Shortest launches: fused over separate.
    pub(super) fused_of_separate: f64,
    /// Fused time less that of stages that compute: what communication costs. With several ranks it holds
    /// what they wait for each other's work.
    pub(super) exposed_communication_ms: f64,
    /// Tokens of all ranks per second.
    pub(super) tokens_per_s: f64,
    /// Routed rows of all ranks per second.
    pub(super) rows_per_s: f64,
    /// int8 operations per second, in 1e9.
    pub(super) gops: f64,
    /// The same as a share of the matrix unit's peak.
    pub(super) peak_share: f64,
    /// Weights of experts that got rows, each once per launch, in 1e9 bytes per second.
    pub(super) weights_gb_per_s: f64,
    /// The same as a share of reading from memory.
    pub(super) read_share: f64,
    /// Bytes of rows that go to experts and come back, those that stay on their rank included.
    pub(super) moved_bytes: u64,
    /// What the machine's limits allow: the longer of multiplying and of reading weights, in milliseconds.
    pub(super) bound_ms: f64,
    /// That bound over the fused time: 1 is perfect.
    pub(super) bound_share: f64,
    /// Share of its cores' time that a rank waits for others in the last launch.
    pub(super) wait_share: OverRanks,
    /// Whether fused and separate outputs are the same bits.
    pub(super) same_bits: bool,
}

/// Runs a case's launches with ranks as threads.
fn run_threads(
    case: &BenchCase,
    problem: &Problem,
    inputs: &[RankInputs],
    stages: StageSet,
) -> Result<WorldRun, CliError> {
    let args = WorldArgs::of(RankKind::Threads, stages, WARMUP, case.repeat);
    ranks::run_all(&args, problem, inputs)
}

/// Makes a case's inputs and runs the fused layer only.
pub(super) fn run_fused(case: &BenchCase, seed: u64) -> Result<WorldRun, CliError> {
    let problem = case.problem()?;
    let inputs = data::make(&problem, &case.data(seed))?;
    run_threads(case, &problem, &inputs, StageSet::Fused)
}

/// Makes a case's inputs and measures it.
pub(super) fn measure(case: &BenchCase, machine: &Machine, seed: u64) -> Result<Figures, CliError> {
    let problem = case.problem()?;
    let inputs = data::make(&problem, &case.data(seed))?;
    let separate = run_threads(case, &problem, &inputs, StageSet::Separate)?;
    let fused = run_threads(case, &problem, &inputs, StageSet::Fused)?;
    Ok(figures(
        case,
        &problem,
        &inputs,
        machine,
        [&fused, &separate],
    ))
}

fn figures(
    case: &BenchCase,
    problem: &Problem,
    inputs: &[RankInputs],
    machine: &Machine,
    [fused, separate]: [&WorldRun; 2],
) -> Figures {
    let load = Load::of(problem, inputs.iter().map(|rank| rank.topk_ids.as_slice()));
    let rows: u64 = load.rows_per_rank.iter().sum();
    let tokens = u64::from(case.ranks) * u64::from(case.tokens);
    let hidden = u64::from(case.hidden);
    let operations = report::operations(problem, rows);
    let touched = load
        .rows_per_expert
        .iter()
        .filter(|&&rows| rows > 0)
        .count() as u64;
    let weights = (touched * case.weight_bytes() / u64::from(case.experts)) as f64;
    let seconds = median(&fused.launch_seconds).max(f64::MIN_POSITIVE);
    let shortest = |run: &WorldRun| run.launch_seconds.iter().copied().fold(f64::MAX, f64::min);
    let bound =
        ratio(operations, machine.int8_gops * 1e9).max(ratio(weights, machine.read_gb_per_s * 1e9));
    let stages = stage_figures(problem, rows, machine, separate);
    let computing = stages.iter().filter(|stage| !is_communication(stage.stage));
    let computing_ms: f64 = computing.map(|stage| stage.ms).sum();
    let per_second = |amount: f64| amount / seconds / 1e9;
    Figures {
        case: case.name.clone(),
        problem: problem.spec().clone(),
        routing: case.routing.to_string(),
        launches: fused.launch_seconds.len(),
        expert_imbalance: load.experts().imbalance,
        rank_imbalance: load.ranks().imbalance,
        stages,
        separate_ms: median(&separate.launch_seconds) * 1e3,
        fused_ms: seconds * 1e3,
        fused_p99_ms: percentile(&fused.launch_seconds, 0.99) * 1e3,
        fused_of_separate: shortest(fused) / shortest(separate),
        exposed_communication_ms: seconds * 1e3 - computing_ms,
        tokens_per_s: tokens as f64 / seconds,
        rows_per_s: rows as f64 / seconds,
        gops: per_second(operations),
        peak_share: ratio(per_second(operations), machine.int8_gops),
        weights_gb_per_s: per_second(weights),
        read_share: ratio(per_second(weights), machine.read_gb_per_s),
        moved_bytes: rows * (hidden + SCALE_BYTES + 2 * hidden),
        bound_ms: bound * 1e3,
        bound_share: bound / seconds,
        wait_share: wait_share(&fused.timeline),
        same_bits: fused.out == separate.out,
    }
}

fn stage_figures(
    problem: &Problem,
    rows: u64,
    machine: &Machine,
    separate: &WorldRun,
) -> Vec<StageFigure> {
    let figure = |&(stage, time): &(StageKind, report::StageSeconds)| {
        let is_alone = problem.num_ranks() == 1;
        let bytes = stage_bytes(stage, problem, rows).filter(|_| is_alone);
        let gb_per_s = bytes.map(|bytes| ratio(bytes as f64 / 1e9, time.span));
        StageFigure {
            stage,
            ms: time.span * 1e3,
            gb_per_s,
            copy_share: gb_per_s.map(|rate| ratio(rate, machine.copy_gb_per_s)),
        }
    };
    separate.stage_times.iter().map(figure).collect()
}

/// Waits for ranks as shares of cores' time.
fn wait_share(timeline: &Timeline) -> OverRanks {
    let of_rank = |cores: &Vec<CoreTimeline>| {
        let works = || cores.iter().flat_map(|core| &core.work);
        let begin = works().map(|work| work.asked).min().unwrap_or(0);
        let end = works().map(|work| work.end).max().unwrap_or(0);
        let waited: u64 = works().map(|work| work.peer_wait).sum();
        ratio(waited as f64, (end - begin) as f64 * cores.len() as f64)
    };
    let shares: Vec<f64> = timeline.ranks.iter().map(of_rank).collect();
    OverRanks {
        min: shares.iter().copied().fold(f64::MAX, f64::min),
        mean: ratio(shares.iter().sum(), shares.len() as f64),
        max: shares.iter().copied().fold(0.0, f64::max),
    }
}

/// The smallest value that at least `share` of all do not exceed.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.99), 99.0);
        assert_eq!(percentile(&values, 0.5), 50.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.99), 0.0);
    }

    #[test]
    fn bytes_of_stages_follow_from_rows() {
        let case = super::super::cases::launch();
        let problem = case.problem().unwrap();
        assert_eq!(
            stage_bytes(StageKind::FrontReorder, &problem, 8),
            Some(2 * 8 * 64 + 8 * 96)
        );
        assert_eq!(stage_bytes(StageKind::Gmm1, &problem, 8), None);
        assert_eq!(
            stage_bytes(StageKind::Swiglu, &problem, 8),
            Some(5 * 8 * 32)
        );
    }
}
