//! `megamoe gen`.

use std::path::PathBuf;

use clap::Args;
use megamoe_pipeline::reference;
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;

use super::data::{self, DataArgs};
use super::problem::ProblemArgs;
use super::{CliError, Outcome};

/// Arguments of `megamoe gen`. Without data options it follows the published writer's rule.
#[derive(Args)]
pub(super) struct GenArgs {
    /// Folder to write; it must not exist yet.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    problem: ProblemArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Do not compute expected outputs.
    #[arg(long)]
    no_expected: bool,
}

/// Runs it.
pub(super) fn run(args: &GenArgs) -> Result<Outcome, CliError> {
    if args.dir.exists() {
        let dir = args.dir.display();
        return Err(CliError::Request(format!(
            "{dir} exists already; name a new folder"
        )));
    }
    let problem = args.problem.problem()?;
    let spec = args.data.spec(RoutingKind::Balanced, DataKind::Synthetic);
    let inputs = data::make(&problem, &spec)?;
    let expected = (!args.no_expected)
        .then(|| reference::run(&problem, &inputs, ActivationOptions::default()).out);
    data::write_folder(&args.dir, &problem, &inputs, expected.as_deref())?;
    println!("wrote {}", args.dir.display());
    Ok(Outcome::Right)
}
