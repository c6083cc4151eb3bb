//! `megamoe plan`.

use clap::Args;
use megamoe_pipeline::case::Description;
use megamoe_pipeline::layer::LayerStages;
use megamoe_pipeline::schedule::CombinePath;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::WindowLayout;
use moe_core::{InputSizes, Problem, Soc};

use super::problem::{CaseArgs, ProblemArgs};
use super::{CliError, Outcome};

/// Arguments of `megamoe plan`.
#[derive(Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    problem: ProblemArgs,
    /// Device that kernels run on: host, or an Ascend (Ascend910B1 ..).
    #[arg(long, value_name = "NAME", default_value = "Ascend910B1")]
    soc: String,
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
    print_stages(&problem, &args.soc)?;
    Ok(Outcome::Right)
}

/// The stages of every rank; ranks with the same are listed once.
fn print_stages(problem: &Problem, soc: &str) -> Result<(), CliError> {
    let soc = Soc::named(soc)?.on_this_machine();
    let standard = LayerStages::standard(ActivationOptions::default(), CombinePath::Auto);
    let mut last = Vec::new();
    for rank in 0..problem.num_ranks() {
        let list = standard.plan(problem, rank, &soc)?.list();
        if list == last {
            continue;
        }
        println!("stages on {}, from rank {rank}:", soc.name);
        for stage in &list {
            let workspace = super::report::bytes(stage.workspace_bytes);
            println!(
                "{:>10}  {:<18} {:>3} cores, workspace {workspace}",
                stage.kind, stage.name, stage.num_blocks
            );
        }
        last = list;
    }
    Ok(())
}
