//! What commands print.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use megamoe_pipeline::layer::{Dropped, StageTime};
use megamoe_pipeline::trace::overlap::Overlap;
use megamoe_pipeline::verify::Comparison;
use moe_core::routing::{Load, Spread};
use moe_core::{Problem, StageKind};
use serde::{Deserialize, Serialize};

use super::CliError;

/// One line with every size.
pub(super) fn problem_line(problem: &Problem) -> String {
    let sizes = problem.spec();
    let tokens = match sizes.tokens_per_rank.as_slice() {
        [first, rest @ ..] if rest.iter().all(|m| m == first) => first.to_string(),
        uneven => uneven
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(","),
    };
    format!(
        "ranks {}  tokens/rank {tokens}  hidden {}  intermediate {}  experts/rank {}  top-k {}  \
         max_output_size {}  {} -> {}",
        problem.num_ranks(),
        sizes.hidden,
        sizes.intermediate,
        sizes.experts_per_rank,
        sizes.top_k,
        sizes.max_output_size,
        sizes.input_type,
        sizes.output_type,
    )
}

/// A byte count for people.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Seconds of a stage in a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct StageSeconds {
    /// From the first core that began to the last that ended.
    pub(super) span: f64,
    /// Work of all cores.
    pub(super) busy: f64,
    /// Waits of all cores.
    pub(super) stalled: f64,
}

impl StageSeconds {
    /// Of a stage of which no more is known.
    pub(super) fn of_span(span: Duration) -> Self {
        Self {
            span: span.as_secs_f64(),
            ..Self::default()
        }
    }

    /// Of a launch's report.
    pub(super) fn of(time: &StageTime) -> Self {
        Self {
            span: time.span.as_secs_f64(),
            busy: time.busy.as_secs_f64(),
            stalled: time.stalled.as_secs_f64(),
        }
    }

    /// Mean of some.
    pub(super) fn mean(times: &[&Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| {
            let sum: f64 = times.iter().map(|time| value(time)).sum();
            sum / times.len().max(1) as f64
        };
        Self {
            span: mean(|time| time.span),
            busy: mean(|time| time.busy),
            stalled: mean(|time| time.stalled),
        }
    }
}

/// What a run did.
#[derive(Serialize)]
pub(super) struct RunReport {
    /// Sizes.
    pub(super) problem: moe_core::ProblemSpec,
    /// What ran the stages.
    pub(super) stages: &'static str,
    /// Seconds in each stage, mean over ranks and the counted launches.
    pub(super) stage_seconds: BTreeMap<StageKind, StageSeconds>,
    /// How the last launch's stages overlapped, where they were one kernel.
    pub(super) overlap: Option<Overlap>,
    /// Seconds that each rank waited for each other in the last launch, where they are known.
    pub(super) peer_waits: Vec<Vec<f64>>,
    /// Seconds of each counted launch.
    pub(super) launch_seconds: Vec<f64>,
    /// Multiply and add operations of the two matmuls, in 1e9 per second of the median launch.
    pub(super) gops: f64,
    /// Rows of every expert and rank.
    pub(super) load: Load,
    /// Spread over experts.
    pub(super) expert_spread: Spread,
    /// Spread over ranks.
    pub(super) rank_spread: Spread,
    /// Rows that capacities dropped.
    pub(super) dropped_rows: u64,
    /// The same by rank, expert and source.
    pub(super) dropped: Vec<Dropped>,
    /// What was compared, and how it went.
    pub(super) verified: Option<Verified>,
}

/// The result of verifying.
#[derive(Serialize)]
pub(super) struct Verified {
    /// Whether the output is right.
    pub(super) right: bool,
    /// What it was compared with.
    pub(super) against: &'static str,
    /// Figures.
    pub(super) comparison: Comparison,
}

impl RunReport {
    /// Prints it for people.
    pub(super) fn print(&self, problem: &Problem) {
        println!("{}", problem_line(problem));
        match &self.overlap {
            Some(overlap) => print_overlap(overlap),
            None => print_stages(&self.stage_seconds),
        }
        let median = median(&self.launch_seconds);
        println!(
            "{}: {:.3} ms (median of {}), {:.1} GOPS",
            self.stages,
            median * 1e3,
            self.launch_seconds.len(),
            self.gops
        );
        print_spread("rows per expert", &self.expert_spread);
        print_spread("rows per rank", &self.rank_spread);
        print_waits(&self.peer_waits);
        if self.dropped_rows > 0 {
            println!("dropped rows: {}", self.dropped_rows);
            for dropped in &self.dropped {
                println!("    {dropped}");
            }
        }
        match &self.verified {
            None => println!("verified: no"),
            Some(verified) => {
                println!(
                    "{} (against {})",
                    verdict(&verified.comparison, verified.right),
                    verified.against
                );
            }
        }
    }
}

/// Stages that ran one after the other.
fn print_stages(stages: &BTreeMap<StageKind, StageSeconds>) {
    let mut table = table(&["stage", "ms", "share"]);
    let total: f64 = stages.values().map(|stage| stage.span).sum();
    for (kind, stage) in stages {
        table.add_row([
            kind.to_string(),
            format!("{:.3}", stage.span * 1e3),
            percent(stage.span, total),
        ]);
    }
    println!("{table}");
}

/// Stages of one kernel.
fn print_overlap(overlap: &Overlap) {
    let mut table = table(&[
        "stage",
        "cores",
        "busy ms",
        "share",
        "waits for cores ms",
        "waits for ranks ms",
    ]);
    let total: f64 = overlap.stages.iter().map(|stage| stage.busy).sum();
    for stage in &overlap.stages {
        table.add_row([
            stage.stage.to_string(),
            stage.cores.to_string(),
            format!("{:.3}", stage.busy * 1e3),
            percent(stage.busy, total),
            format!("{:.3}", stage.waits_for_cores * 1e3),
            format!("{:.3}", stage.waits_for_ranks * 1e3),
        ]);
    }
    println!("{table}");
    println!(
        "communication: {:.3} ms of a rank, {:.1} % of it beside matrix work; \
         before the first matmul {:.3} ms, after the last {:.3} ms (of {:.3})",
        overlap.communication * 1e3,
        100.0 * overlap.hidden_share(),
        overlap.head * 1e3,
        overlap.tail * 1e3,
        overlap.launch * 1e3,
    );
}

/// The rank that others waited for longest.
fn print_waits(peer_waits: &[Vec<f64>]) {
    let waits = (0..).zip(peer_waits).flat_map(|(rank, waits): (u32, _)| {
        (0..)
            .zip(waits)
            .map(move |(peer, &wait): (u32, &f64)| (rank, peer, wait))
    });
    let longest = waits.max_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((rank, peer, wait)) = longest.filter(|(_, _, wait)| *wait > 0.0) {
        println!(
            "longest wait of a core: rank {rank} for rank {peer}, {:.3} ms",
            wait * 1e3
        );
    }
}

pub(super) fn percent(part: f64, total: f64) -> String {
    format!("{:.1} %", 100.0 * ratio(part, total))
}

/// A part of something; 0 where there is nothing to compare with.
pub(super) fn ratio(part: f64, total: f64) -> f64 {
    if total > 0.0 { part / total } else { 0.0 }
}

/// A table as all commands print it.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}

fn print_spread(name: &str, spread: &Spread) {
    println!(
        "{name}: min {} mean {:.1} max {} (max/mean {:.2})",
        spread.min, spread.mean, spread.max, spread.imbalance
    );
}

/// Middle of some durations in seconds; 0 when there are none.
pub(super) fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Operations of both matmuls: a multiply and an add for each weight that a row meets.
pub(super) fn operations(problem: &Problem, rows: u64) -> f64 {
    let weights = u64::from(problem.hidden())
        * (u64::from(problem.gate_up()) + u64::from(problem.intermediate()));
    2.0 * rows as f64 * weights as f64
}

fn verdict(comparison: &Comparison, right: bool) -> String {
    let mut line = format!(
        "verified: {}  max abs error {:.3e}  rel Frobenius {:.3e}  bit-equal {:.4} % of {}",
        if right { "ok" } else { "WRONG" },
        comparison.max_abs_error,
        comparison.rel_frobenius,
        100.0 * comparison.bit_equal_share(),
        comparison.num_elements,
    );
    if let (false, Some(first)) = (right, &comparison.first_difference) {
        line += &format!(
            "  first difference: rank {} token {} column {}: {} instead of {}",
            first.rank, first.token, first.column, first.got, first.want
        );
    }
    line
}

/// Prints a comparison.
pub(super) fn print_comparison(
    comparison: &Comparison,
    right: bool,
    json: bool,
) -> Result<(), CliError> {
    if json {
        print_json(comparison)
    } else {
        println!("{}", verdict(comparison, right));
        Ok(())
    }
}

/// Prints a value as JSON.
pub(super) fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::Request(format!("can't write JSON: {error}")))?;
    println!("{text}");
    Ok(())
}
