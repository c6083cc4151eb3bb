//! `megamoe plan`.

use clap::Args;
use megamoe_pipeline::case::Description;
use megamoe_window::WindowLayout;
use moe_core::InputSizes;

use super::problem::{CaseArgs, ProblemArgs};
use super::{CliError, Outcome};

/// Arguments of `megamoe plan`.
#[derive(Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    problem: ProblemArgs,
    /// Bytes of a rank's window, where they are fixed: fails when the problem needs more.
    #[arg(long, value_name = "BYTES")]
    window_bytes: Option<u64>,
}

/// Runs it.
pub(super) fn run(args: &PlanArgs) -> Result<Outcome, CliError> {
    let problem = match &args.case.case {
        Some(dir) => Description::read(dir)?.problem(dir)?,
        None => args.problem.problem()?,
    };
    println!("{}", super::report::problem_line(&problem));
    let layout = WindowLayout::new(&problem)?;
    if let Some(bytes) = args.window_bytes {
        layout.check_fits(bytes)?;
    }
    let rows = u64::from(problem.max_output_size());
    let (hidden, gate_up) = (u64::from(problem.hidden()), u64::from(problem.gate_up()));
    for rank in 0..problem.num_ranks() {
        let sizes = InputSizes::of(&problem, rank);
        let weights = sizes.experts * (sizes.weight1_per_expert + sizes.weight2_per_expert)
            + 8 * (sizes.scale1 + sizes.scale2);
        let tokens = 2 * 2 * sizes.x + 8 * sizes.routes;
        let workspace = rows * (hidden + 4 + 2 * gate_up + gate_up / 2 + 4 + 2 * hidden);
        println!(
            "rank {rank}: weights {}, tokens {}, workspace {}",
            super::report::bytes(weights),
            super::report::bytes(tokens),
            super::report::bytes(workspace),
        );
    }
    println!("window of each rank:\n{layout}");
    Ok(Outcome::Right)
}
