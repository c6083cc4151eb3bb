//! Figures for people.

use megamoe_bench::machine::Machine;

use super::super::report::{self, table};
use super::cases::BenchCase;
use super::figures::{Figures, StageFigure};
use super::guard::Ratio;
use super::{LaunchFigure, RankKinds};

fn percent(share: f64) -> String {
    report::percent(share, 1.0)
}

/// What figures are shares of.
pub(super) fn machine(machine: &Machine, commit: &str, seed: u64) {
    println!(
        "{}, {} threads; commit {commit}, seed {seed}",
        machine.cpu, machine.threads
    );
    println!(
        "limits: {:.0} GOPS int8, {:.1} GB/s read, {:.1} GB/s copied (read + written)\n",
        machine.int8_gops, machine.read_gb_per_s, machine.copy_gb_per_s
    );
}

/// One case.
pub(super) fn case(figures: &Figures) {
    let sizes = &figures.problem;
    let ranks = sizes.tokens_per_rank.len() as u32;
    println!(
        "{}: ranks {ranks}  tokens/rank {}  H {}  I {}  E {}  K {}  int8  {}  imbalance expert {:.2} rank {:.2}",
        figures.case,
        sizes.tokens_per_rank.first().copied().unwrap_or(0),
        sizes.hidden,
        sizes.intermediate,
        ranks * sizes.experts_per_rank,
        sizes.top_k,
        figures.routing,
        figures.expert_imbalance,
        figures.rank_imbalance,
    );
    stages(&figures.stages);
    println!(
        "sum {:.3} ms | separate {:.3} ms | fused {:.3} ms | overlap x {:.2} | exposed communication {:.3} ms",
        figures.stages.iter().map(|stage| stage.ms).sum::<f64>(),
        figures.separate_ms,
        figures.fused_ms,
        1.0 / figures.fused_of_separate,
        figures.exposed_communication_ms,
    );
    println!(
        "p50 {:.3} ms  p99 {:.3} ms of {} (slowest rank)  {:.0} tok/s  {:.0} rows/s  {:.1} GOPS, {} of peak",
        figures.fused_ms,
        figures.fused_p99_ms,
        figures.launches,
        figures.tokens_per_s,
        figures.rows_per_s,
        figures.gops,
        percent(figures.peak_share),
    );
    println!(
        "weights {:.1} GB/s, {} of reading  moved {:.1} MB  bound {:.3} ms, reached {}",
        figures.weights_gb_per_s,
        percent(figures.read_share),
        figures.moved_bytes as f64 / 1e6,
        figures.bound_ms,
        percent(figures.bound_share),
    );
    let waits = figures.wait_share;
    println!(
        "wait per rank min {} mean {} max {}  fused against separate: {}\n",
        percent(waits.min),
        percent(waits.mean),
        percent(waits.max),
        same_bits(figures.same_bits),
    );
}

fn same_bits(same: bool) -> &'static str {
    if same { "bitwise equal" } else { "DIFFERENT" }
}

fn stages(stages: &[StageFigure]) {
    let mut table = table(&["stage", "ms", "GB/s", "of copying"]);
    for stage in stages {
        let or_empty = |value: Option<String>| value.unwrap_or_default();
        table.add_row([
            stage.stage.to_string(),
            format!("{:.3}", stage.ms),
            or_empty(stage.gb_per_s.map(|rate| format!("{rate:.1}"))),
            or_empty(stage.copy_share.map(percent)),
        ]);
    }
    println!("{table}");
}

/// Cases in which one size varies.
pub(super) fn series(varied: &str, cases: &[Figures]) {
    let mut table = table(&[
        varied,
        "fused ms",
        "separate ms",
        "bound ms",
        "reached",
        "imbalance expert",
        "rank",
        "wait max",
        "bits",
    ]);
    for case in cases {
        table.add_row([
            case.case.clone(),
            format!("{:.3}", case.fused_ms),
            format!("{:.3}", case.separate_ms),
            format!("{:.3}", case.bound_ms),
            percent(case.bound_share),
            format!("{:.2}", case.expert_imbalance),
            format!("{:.2}", case.rank_imbalance),
            percent(case.wait_share.max),
            same_bits(case.same_bits).to_owned(),
        ]);
    }
    println!("{table}\n");
}

/// Both kinds of ranks.
pub(super) fn ranks(kinds: &RankKinds, case: &BenchCase) {
    println!(
        "{}, {} tokens each: {:.3} ms as threads, {:.3} ms as processes ({:.2} x)\n",
        case.name,
        case.tokens,
        kinds.threads_ms,
        kinds.processes_ms,
        kinds.processes_ms / kinds.threads_ms,
    );
}

/// A launch with almost no work.
pub(super) fn launch(figure: &LaunchFigure) {
    println!(
        "launch with 1 token on each of 8 ranks: p50 {:.3} ms  p99 {:.3} ms\n",
        figure.p50_ms, figure.p99_ms
    );
}

/// Ratios and their limits.
pub(super) fn guard(ratios: &[Ratio]) {
    let mut table = table(&["ratio", "measured", "from", "to", "holds"]);
    for ratio in ratios {
        table.add_row([
            ratio.name.to_owned(),
            format!("{:.3}", ratio.value),
            format!("{:.2}", ratio.min),
            format!("{:.2}", ratio.max),
            if ratio.holds() { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    println!("{table}");
}
