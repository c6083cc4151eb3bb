//! Inputs for a command: read from a case folder, or made, with a progress bar.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use megamoe_pipeline::case::{Case, DataSource, Description, files};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate, generate_rank, num_pieces};
use megamoe_pipeline::verify::Tolerance;
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{Problem, RankInputs};

use super::CliError;

/// What generated data looks like.
#[derive(Args, Clone, Debug)]
pub(super) struct DataArgs {
    /// Which experts tokens go to: balanced, uniform, zipf:S, few:N, or file:DIR for the
    /// `rank{r}_expert_idx.bin` of a folder.
    #[arg(long, value_name = "ROUTING")]
    routing: Option<RoutingSource>,
    /// Values: the published writer's rule, or random with outputs of unit scale.
    #[arg(long, value_enum)]
    data: Option<DataArg>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DataArg {
    Synthetic,
    Random,
}

impl DataArgs {
    /// What to make; the defaults are the command's.
    pub(super) fn spec(&self, routing: RoutingKind, kind: DataKind) -> DataSpec {
        DataSpec {
            kind: self.data.map_or(kind, |arg| match arg {
                DataArg::Synthetic => DataKind::Synthetic,
                DataArg::Random => DataKind::Random,
            }),
            routing: self.routing.clone().unwrap_or(RoutingSource::Made(routing)),
            seed: self.seed,
        }
    }

    /// A case brings its data along.
    pub(super) fn refuse_beside_a_case(&self) -> Result<(), CliError> {
        let option = match (&self.routing, &self.data) {
            (Some(_), _) => "--routing",
            (None, Some(_)) => "--data",
            (None, None) => return Ok(()),
        };
        Err(CliError::Request(format!(
            "{option} can't be used with --case, which brings its data along"
        )))
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

/// A bar on standard error, hidden where that is no terminal.
pub(super) fn progress_bar(length: u64, what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(length).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// Makes the inputs of every rank.
pub(super) fn make(problem: &Problem, spec: &DataSpec) -> Result<Vec<RankInputs>, CliError> {
    let bar = progress_bar(num_pieces(problem), "generating");
    let inputs = generate(problem, spec, &|| bar.inc(1))?;
    bar.finish_and_clear();
    Ok(inputs)
}

/// Reads a case folder.
pub(super) fn read(dir: &Path) -> Result<Case, CliError> {
    let bar = ProgressBar::new_spinner().with_message("reading");
    let case = Case::read(dir, &|| bar.inc(1))?;
    bar.finish_and_clear();
    Ok(case)
}

/// Inputs of one rank of a generated case: read where they are kept, else made.
pub(super) fn rank_inputs(
    problem: &Problem,
    spec: &DataSpec,
    rank: u32,
    reuse: bool,
) -> Result<RankInputs, CliError> {
    let dir = kept_dir(problem, spec);
    if reuse && dir.is_dir() {
        return Ok(Case::read_rank(&dir, rank)?.1);
    }
    Ok(generate_rank(problem, spec, rank, &|| ())?)
}

/// Makes a case, or takes it from `out/` where an earlier run kept the very same one.
pub(super) fn make_or_reuse(
    problem: &Problem,
    spec: &DataSpec,
    reuse: bool,
) -> Result<Case, CliError> {
    let tolerance = Tolerance::PUBLISHED;
    if !reuse {
        let inputs = make(problem, spec)?;
        return Ok(Case {
            problem: problem.clone(),
            inputs,
            expected: None,
            tolerance,
        });
    }
    if matches!(spec.routing, RoutingSource::Files(_)) {
        let message = "--reuse-data can't tell whether routing files changed; leave it out";
        return Err(CliError::Request(message.to_owned()));
    }
    let dir = kept_dir(problem, spec);
    if dir.is_dir() {
        tracing::info!(dir = %dir.display(), "reusing data");
        return read(&dir);
    }
    let inputs = make(problem, spec)?;
    write_folder(&dir, problem, &inputs, None)?;
    tracing::info!(dir = %dir.display(), "kept data");
    Ok(Case {
        problem: problem.clone(),
        inputs,
        expected: None,
        tolerance,
    })
}

/// The folder's name says everything that the data depends on, so stale data can't be taken for fresh.
fn kept_dir(problem: &Problem, spec: &DataSpec) -> PathBuf {
    let sizes = problem.spec();
    let tokens: Vec<String> = match sizes.tokens_per_rank.as_slice() {
        [first, rest @ ..] if rest.iter().all(|m| m == first) => {
            vec![format!("{}x{first}", rest.len() + 1)]
        }
        uneven => uneven.iter().map(u32::to_string).collect(),
    };
    let kind = match spec.kind {
        DataKind::Synthetic => "synthetic",
        DataKind::Random => "random",
    };
    Path::new("out").join(format!(
        "m{}-k{}-n{}-topk{}-e{}-s{}-{}-{}-{kind}-{}-seed{}",
        tokens.join("_"),
        sizes.hidden,
        problem.gate_up(),
        sizes.top_k,
        sizes.experts_per_rank,
        sizes.max_output_size,
        sizes.input_type,
        sizes.output_type,
        spec.routing.to_string().replace(':', ""),
        spec.seed,
    ))
}

/// Writes a case folder. It appears whole or not at all: it is filled under another name, and Ctrl-C
/// removes that.
pub(super) fn write_folder(
    dir: &Path,
    problem: &Problem,
    inputs: &[RankInputs],
    expected: Option<&[Vec<u16>]>,
) -> Result<(), CliError> {
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let io = |path: &Path, error| {
        CliError::Case(megamoe_pipeline::case::CaseError::Io {
            path: path.to_owned(),
            source: error,
        })
    };
    std::fs::create_dir_all(parent).map_err(|error| io(parent, error))?;
    let partial = tempfile::Builder::new()
        .prefix(".megamoe-")
        .tempdir_in(parent)
        .map_err(|e| io(parent, e))?;
    let interrupted = super::run::interrupt_flag();
    let bar = progress_bar(inputs.len() as u64, "writing");
    let description = Description {
        spec: problem.spec().clone(),
        data: DataSource::Files,
        tolerance: Tolerance::PUBLISHED,
    };
    description.write(partial.path())?;
    for (rank, rank_inputs) in (0..).zip(inputs) {
        if interrupted.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(CliError::Interrupted);
        }
        files::write_inputs(partial.path(), rank, rank_inputs)?;
        bar.inc(1);
    }
    if let Some(expected) = expected {
        files::write_outputs(partial.path(), files::EXPECTED_OUT, expected)?;
    }
    bar.finish_and_clear();
    std::fs::rename(partial.keep(), dir).map_err(|error| io(dir, error))
}
