//! `megamoe run`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueEnum};
use megamoe_pipeline::case::{Case, CaseError, DataSource, Description, files};
use megamoe_pipeline::generate::DataSpec;
use megamoe_pipeline::trace::overlap::Overlap;
use megamoe_pipeline::trace::{Timeline, chrome};
use megamoe_pipeline::verify::{Comparison, Tolerance};
use megamoe_pipeline::{reference, sample};
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_window::world::{Member, Origin};
use moe_core::data::DataKind;
use moe_core::exchange::CountTable;
use moe_core::routing::{Load, RoutingKind};
use moe_core::{Problem, RankInputs};

use super::data::{self, DataArgs};
use super::npu;
use super::problem::{CaseArgs, ProblemArgs};
use super::ranks::{self, DeviceKind, WorldArgs, WorldRun};
use super::report::{self, RunReport, Verified};
use super::{CliError, Outcome};

/// Arguments of `megamoe run`. Without any, a case that takes a few seconds.
#[derive(Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    problem: ProblemArgs,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    world: WorldArgs,
    /// Write `rank{r}_out.bin` of every rank to this folder, and for generated data a `case.toml`, so
    /// that `megamoe verify` can check them again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How much of the output to verify [default: full for small problems, else sample].
    #[arg(long, value_enum)]
    verify: Option<VerifyMode>,
    /// Keep generated data under out/ and take it from there next time.
    #[arg(long, conflicts_with = "case")]
    reuse_data: bool,
    /// Write a trace of the last launch, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How much is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerifyMode {
    /// Nothing.
    None,
    /// Some tokens of every rank, recomputed by the oracle.
    Sample,
    /// Everything.
    Full,
}

/// Above so many operations only a sample is verified unless asked for more.
const FULL_VERIFY_OPERATIONS: f64 = 100e9;
/// Tokens of each rank in a sample.
const SAMPLE_TOKENS: u32 = 8;

/// Set by Ctrl-C. The handler is installed at the first call; a second Ctrl-C ends the process.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    Arc::clone(FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let handler = move || {
            if seen.swap(true, Ordering::Relaxed) {
                std::process::exit(super::INTERRUPTED.into());
            }
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            tracing::warn!(%error, "Ctrl-C will not clean up");
        }
        flag
    }))
}

/// Runs it: the whole world, or as one rank of a world that another process started.
pub(super) fn run(args: &RunArgs) -> Result<Outcome, CliError> {
    if args.world.device == DeviceKind::Ascend {
        npu::grant_windows(&problem_of(args)?)?;
    }
    match Member::from_env()? {
        None => run_world(args),
        Some(member) if member.origin() == Origin::Parent => run_child(args, member),
        Some(member) => run_launched(args, member),
    }
}

fn run_world(args: &RunArgs) -> Result<Outcome, CliError> {
    let case = load(args)?;
    let problem = &case.problem;
    args.world.check(problem)?;
    let counts = CountTable::from_ids(problem, case.inputs.iter().map(|i| i.topk_ids.as_slice()));
    refuse_drops(args, &counts)?;
    refuse_trace(args)?;
    let run = ranks::run_all(&args.world, problem, &case.inputs)?;
    if let Some(path) = &args.trace {
        write_trace(path, &run.timeline)?;
    }
    if let Some(dir) = &args.out {
        write_outputs(dir, args, problem, &run.out)?;
    }
    let verified = verify(args, &case, &run.out)?;
    report(args, &case, &counts, &run, verified)
}

/// A child of [`run_world`]: computes and hands its result over, prints nothing.
fn run_child(args: &RunArgs, member: Member) -> Result<Outcome, CliError> {
    let (problem, inputs) = load_rank(args, member.rank())?;
    let mut joined = member.join(&args.world.world(&problem)?)?;
    let result = ranks::run_joined(&args.world, &problem, &mut joined, &inputs)
        .and_then(|run| ranks::encode(&run))
        .map_err(|error| error.to_string());
    joined.finish(match &result {
        Ok(bytes) => Ok(bytes),
        Err(reason) => Err(reason),
    })?;
    Ok(Outcome::Right)
}

/// A rank of a world that a launcher started: verifies and reports its own part.
fn run_launched(args: &RunArgs, member: Member) -> Result<Outcome, CliError> {
    let rank = member.rank();
    let case = load(args)?;
    let problem = &case.problem;
    let counts = CountTable::from_ids(problem, case.inputs.iter().map(|i| i.topk_ids.as_slice()));
    refuse_drops(args, &counts)?;
    refuse_trace(args)?;
    let mut joined = member.join(&args.world.world(problem)?)?;
    let inputs = &case.inputs[rank as usize];
    let run = ranks::run_joined(&args.world, problem, &mut joined, inputs);
    let reason = run.as_ref().err().map(ToString::to_string);
    joined.finish(reason.as_deref().map_or(Ok(&[]), Err))?;
    let mut run = run
        .map_err(|error| CliError::Failed(error.to_string()))?
        .alone();
    // Its own part stands where it does in the whole; the other parts are the oracle's.
    let own = std::mem::take(&mut run.out[0]);
    run.out = reference::run(problem, &case.inputs, ActivationOptions::default()).out;
    run.out[rank as usize] = own;
    if let Some(dir) = &args.out {
        write_outputs(dir, args, problem, &run.out)?;
    }
    let verified = verify(args, &case, &run.out)?;
    if rank == 0 {
        return report(args, &case, &counts, &run, verified);
    }
    Ok(outcome(verified.as_ref()))
}

fn outcome(verified: Option<&Verified>) -> Outcome {
    if verified.is_none_or(|verified| verified.right) {
        Outcome::Right
    } else {
        Outcome::Wrong
    }
}

fn report(
    args: &RunArgs,
    case: &Case,
    counts: &CountTable,
    run: &WorldRun,
    verified: Option<Verified>,
) -> Result<Outcome, CliError> {
    let problem = &case.problem;
    let outcome = outcome(verified.as_ref());
    let load = Load::of(problem, case.inputs.iter().map(|i| i.topk_ids.as_slice()));
    let operations = report::operations(problem, counts.total_kept());
    let report = RunReport {
        problem: problem.spec().clone(),
        stages: args.world.stages_name(),
        stage_seconds: run.stage_times.iter().copied().collect(),
        overlap: Overlap::of(&run.timeline),
        peer_waits: run.peer_waits.clone(),
        gops: operations / report::median(&run.launch_seconds).max(f64::MIN_POSITIVE) / 1e9,
        launch_seconds: run.launch_seconds.clone(),
        expert_spread: load.experts(),
        rank_spread: load.ranks(),
        load,
        dropped_rows: counts.total_dropped(),
        dropped: run.dropped.clone(),
        verified,
    };
    if args.json {
        report::print_json(&report)?;
    } else {
        report.print(problem);
    }
    Ok(outcome)
}

/// The sizes alone.
fn problem_of(args: &RunArgs) -> Result<Problem, CliError> {
    match &args.case.case {
        Some(dir) => Ok(Description::read(dir)?.problem(dir)?),
        None => args.problem.problem(),
    }
}

fn load(args: &RunArgs) -> Result<Case, CliError> {
    if let Some(dir) = &args.case.case {
        args.data.refuse_beside_a_case()?;
        return data::read(dir);
    }
    let problem = args.problem.problem()?;
    // Before the data is made, which can take minutes.
    args.world.check(&problem)?;
    refuse_trace(args)?;
    data::make_or_reuse(&problem, &data_spec(args), args.reuse_data)
}

fn load_rank(args: &RunArgs, rank: u32) -> Result<(Problem, RankInputs), CliError> {
    if let Some(dir) = &args.case.case {
        return Ok(Case::read_rank(dir, rank)?);
    }
    let problem = args.problem.problem()?;
    let inputs = data::rank_inputs(&problem, &data_spec(args), rank, args.reuse_data)?;
    Ok((problem, inputs))
}

fn data_spec(args: &RunArgs) -> DataSpec {
    args.data.spec(RoutingKind::Uniform, DataKind::Random)
}

/// Rows beyond a capacity are an error unless allowed: nobody should find out by a wrong answer.
fn refuse_drops(args: &RunArgs, counts: &CountTable) -> Result<(), CliError> {
    let total = counts.total_dropped();
    if total == 0 || args.world.allow_drop {
        return Ok(());
    }
    let ranks = 0..counts.num_ranks();
    let full: Vec<String> = ranks.filter_map(|rank| drops_of(counts, rank)).collect();
    let plural = if total == 1 { "row" } else { "rows" };
    Err(CliError::Request(format!(
        "max_output_size is too small for this routing: {total} {plural} would be dropped ({}); \
         raise it or pass --allow-drop",
        full.join("; ")
    )))
}

/// What a rank would drop, by its experts.
fn drops_of(counts: &CountTable, rank: u32) -> Option<String> {
    let dropped = counts.dropped(rank);
    let total: u64 = dropped.iter().copied().map(u64::from).sum();
    let num_experts = dropped.len() / counts.num_ranks() as usize;
    let of_expert = |expert: usize| {
        let sources = dropped.iter().skip(expert).step_by(num_experts);
        let count: u64 = sources.copied().map(u64::from).sum();
        let global = rank as usize * num_experts + expert;
        (count > 0).then(|| format!("{count} of expert {global}"))
    };
    let experts: Vec<String> = (0..num_experts).filter_map(of_expert).collect();
    (total > 0).then(|| format!("rank {rank} drops {total}: {}", experts.join(", ")))
}

/// Only a fused launch leaves a trace, and only whoever runs all ranks has all of it.
fn refuse_trace(args: &RunArgs) -> Result<(), CliError> {
    let reason = match &args.trace {
        Some(_) if !args.world.is_fused() => "--trace is for --stages fused",
        Some(_) if Member::from_env()?.is_some() => {
            "--trace needs all ranks to be started by this command, not by a launcher"
        }
        _ => return Ok(()),
    };
    Err(CliError::Request(reason.to_owned()))
}

fn write_trace(path: &Path, timeline: &Timeline) -> Result<(), CliError> {
    let write = || {
        let mut file = BufWriter::new(File::create(path)?);
        chrome::write(timeline, &mut file)?;
        file.flush()
    };
    write().map_err(|source| {
        CaseError::Io {
            path: path.to_owned(),
            source,
        }
        .into()
    })
}

fn write_outputs(
    dir: &Path,
    args: &RunArgs,
    problem: &Problem,
    out: &[Vec<u16>],
) -> Result<(), CliError> {
    std::fs::create_dir_all(dir).map_err(|source| CaseError::Io {
        path: dir.to_owned(),
        source,
    })?;
    if args.case.case.is_none() {
        let description = Description {
            spec: problem.spec().clone(),
            data: DataSource::Generated(data_spec(args)),
            tolerance: Tolerance::EXACT,
        };
        description.write_new(dir)?;
    }
    files::write_outputs(dir, files::OUT, out)?;
    Ok(())
}

fn verify(args: &RunArgs, case: &Case, out: &[Vec<u16>]) -> Result<Option<Verified>, CliError> {
    let problem = &case.problem;
    let compare = |got: &[Vec<u16>], want: &[Vec<u16>], tolerance: &Tolerance, against| {
        let comparison = Comparison::of(problem.output_type(), problem.hidden(), got, want);
        Some(Verified {
            right: comparison.within(tolerance),
            against,
            comparison,
        })
    };
    let mode = args.verify.unwrap_or_else(|| default_mode(problem));
    if mode == VerifyMode::None {
        return Ok(None);
    }
    if let Some(expected) = &case.expected {
        return Ok(compare(out, expected, &case.tolerance, "expected_out"));
    }
    let activation = ActivationOptions::default();
    if mode == VerifyMode::Full {
        let want = reference::run(problem, &case.inputs, activation).out;
        return Ok(compare(out, &want, &Tolerance::EXACT, "the oracle"));
    }
    let chosen = sample::choose(problem, SAMPLE_TOKENS, args.data.seed());
    let want = sample::run(problem, &case.inputs, &chosen, activation)?;
    let got = sample::take(problem, out, &chosen);
    let against = "the oracle, a sample of tokens";
    Ok(compare(&got, &want, &Tolerance::EXACT, against))
}

fn default_mode(problem: &Problem) -> VerifyMode {
    let routes = (0..problem.num_ranks()).map(|rank| u64::from(problem.num_routes(rank)));
    if report::operations(problem, routes.sum()) <= FULL_VERIFY_OPERATIONS {
        VerifyMode::Full
    } else {
        VerifyMode::Sample
    }
}
