//! What commands print.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use megamoe_pipeline::verify::Comparison;
use moe_core::Problem;
use moe_core::routing::{Load, Spread};
use serde::Serialize;

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

/// What a run did.
#[derive(Serialize)]
pub(super) struct RunReport {
    /// Sizes.
    pub(super) problem: moe_core::ProblemSpec,
    /// What ran the stages.
    pub(super) stages: &'static str,
    /// Seconds in each stage, mean over the counted launches.
    pub(super) stage_seconds: Vec<(&'static str, f64)>,
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
        let mut table = Table::new();
        table
            .load_style(ASCII_MARKDOWN)
            .set_header(["stage", "ms", "share"]);
        let total: f64 = self.stage_seconds.iter().map(|(_, seconds)| seconds).sum();
        for (stage, seconds) in &self.stage_seconds {
            let share = if total > 0.0 {
                100.0 * seconds / total
            } else {
                0.0
            };
            table.add_row([
                (*stage).to_owned(),
                format!("{:.3}", seconds * 1e3),
                format!("{share:.1} %"),
            ]);
        }
        println!("{table}");
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
        if self.dropped_rows > 0 {
            println!("dropped rows: {}", self.dropped_rows);
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
