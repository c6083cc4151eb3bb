//! `megamoe verify`.

use std::path::PathBuf;

use clap::Args;
use megamoe_pipeline::case::{CaseError, files};
use megamoe_pipeline::reference;
use megamoe_pipeline::verify::{Comparison, Tolerance};
use megamoe_swiglu::reference::ActivationOptions;

use super::{CliError, Outcome, data, report};

/// Arguments of `megamoe verify`.
#[derive(Args)]
pub(super) struct VerifyArgs {
    /// Folder with `rank{r}_out.bin` of a run.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Folder of the case [default: DIR].
    #[arg(long, value_name = "DIR")]
    case: Option<PathBuf>,
    /// Compare with the oracle even if the case has expected outputs.
    #[arg(long)]
    oracle: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(super) fn run(args: &VerifyArgs) -> Result<Outcome, CliError> {
    let case = data::read(args.case.as_ref().unwrap_or(&args.dir))?;
    let problem = &case.problem;
    let got = files::read_outputs(&args.dir, problem, files::OUT)?.ok_or_else(|| {
        let path = files::path(&args.dir, 0, files::OUT);
        CaseError::Io {
            path,
            source: std::io::ErrorKind::NotFound.into(),
        }
    })?;
    let (want, tolerance) = match case.expected {
        Some(expected) if !args.oracle => (expected, case.tolerance),
        _ => {
            let oracle = reference::run(problem, &case.inputs, ActivationOptions::default());
            (oracle.out, Tolerance::EXACT)
        }
    };
    let comparison = Comparison::of(problem.output_type(), problem.hidden(), &got, &want);
    let right = comparison.within(&tolerance);
    report::print_comparison(&comparison, right, args.json)?;
    Ok(if right {
        Outcome::Right
    } else {
        Outcome::Wrong
    })
}
