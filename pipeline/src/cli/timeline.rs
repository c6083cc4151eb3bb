//! `megamoe timeline`.

use std::path::{Path, PathBuf};

use clap::Args;
use megamoe_pipeline::case::CaseError;
use megamoe_pipeline::trace::{chrome, envelope};

use super::{CliError, Outcome};

/// Arguments of `megamoe timeline`.
#[derive(Args)]
pub(super) struct TimelineArgs {
    /// Trace that `megamoe run --trace` wrote.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Picture to write.
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
    /// Rank to draw.
    #[arg(long, value_name = "R", default_value_t = 0)]
    rank: usize,
}

/// Runs it.
pub(super) fn run(args: &TimelineArgs) -> Result<Outcome, CliError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CaseError::Io { path, source }
    };
    let text = std::fs::read_to_string(&args.trace).map_err(io(&args.trace))?;
    let timeline = chrome::read(&text).map_err(|source| CliError::Trace {
        path: args.trace.clone(),
        source,
    })?;
    let svg = envelope::svg(&timeline, args.rank).map_err(|ranks| {
        CliError::Request(format!(
            "--rank is {}, but the trace has {ranks} ranks, from 0 on",
            args.rank
        ))
    })?;
    std::fs::write(&args.svg, svg).map_err(io(&args.svg))?;
    Ok(Outcome::Right)
}
