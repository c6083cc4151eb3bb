//! `megamoe run`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use clap::{Args, ValueEnum};
use megamoe_pipeline::case::{Case, CaseError, DataSource, Description, files};
use megamoe_pipeline::generate::DataSpec;
use megamoe_pipeline::reference::{self, LayerOutput};
use megamoe_pipeline::sample;
use megamoe_pipeline::verify::{Comparison, Tolerance};
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::Problem;
use moe_core::data::DataKind;
use moe_core::exchange::CountTable;
use moe_core::routing::{Load, RoutingKind};

use super::data::{self, DataArgs};
use super::problem::{CaseArgs, ProblemArgs};
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
    /// Write `rank{r}_out.bin` of every rank to this folder, and for generated data a `case.toml`, so
    /// that `megamoe verify` can check them again.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How much of the output to verify [default: full for small problems, else sample].
    #[arg(long, value_enum)]
    verify: Option<VerifyMode>,
    /// Launches that are timed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Launches before those.
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u32,
    /// Keep generated data under out/ and take it from there next time.
    #[arg(long, conflicts_with = "case")]
    reuse_data: bool,
    /// Succeed even if a rank's capacity drops rows.
    #[arg(long)]
    allow_drop: bool,
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

/// Runs it.
pub(super) fn run(args: &RunArgs) -> Result<Outcome, CliError> {
    let case = load(args)?;
    let problem = &case.problem;
    let counts = CountTable::from_ids(problem, case.inputs.iter().map(|i| i.topk_ids.as_slice()));
    refuse_drops(args, &counts)?;
    let (output, launch_seconds, stage_times) = launch(args, &case)?;
    if let Some(dir) = &args.out {
        write_outputs(dir, args, problem, &output)?;
    }
    let load = Load::of(problem, case.inputs.iter().map(|i| i.topk_ids.as_slice()));
    let rows: u64 = load.rows_per_rank.iter().sum::<u64>() - counts.total_dropped();
    let operations = report::operations(problem, rows);
    let verified = verify(args, &case, &output, operations)?;
    let right = verified.as_ref().is_none_or(|verified| verified.right);
    let report = RunReport {
        problem: problem.spec().clone(),
        stages: "oracle",
        stage_seconds: report::mean_stage_seconds(&stage_times),
        gops: operations / report::median(&launch_seconds).max(f64::MIN_POSITIVE) / 1e9,
        launch_seconds,
        expert_spread: load.experts(),
        rank_spread: load.ranks(),
        load,
        dropped_rows: counts.total_dropped(),
        verified,
    };
    if args.json {
        report::print_json(&report)?;
    } else {
        report.print(problem);
    }
    Ok(if right {
        Outcome::Right
    } else {
        Outcome::Wrong
    })
}

fn load(args: &RunArgs) -> Result<Case, CliError> {
    if let Some(dir) = &args.case.case {
        args.data.refuse_beside_a_case()?;
        return data::read(dir);
    }
    let problem = args.problem.problem()?;
    data::make_or_reuse(&problem, &data_spec(args), args.reuse_data)
}

fn data_spec(args: &RunArgs) -> DataSpec {
    args.data.spec(RoutingKind::Uniform, DataKind::Random)
}

/// Rows beyond a capacity are an error unless allowed: nobody should find out by a wrong answer.
fn refuse_drops(args: &RunArgs, counts: &CountTable) -> Result<(), CliError> {
    let total = counts.total_dropped();
    if total == 0 || args.allow_drop {
        return Ok(());
    }
    let full: Vec<String> = (0..counts.num_ranks())
        .filter_map(|rank| {
            let dropped: u64 = counts.dropped(rank).into_iter().map(u64::from).sum();
            (dropped > 0).then(|| format!("rank {rank} drops {dropped}"))
        })
        .collect();
    let plural = if total == 1 { "row" } else { "rows" };
    Err(CliError::Request(format!(
        "max_output_size is too small for this routing: {total} {plural} would be dropped ({}); \
         raise it or pass --allow-drop",
        full.join(", ")
    )))
}

type Launches = (
    LayerOutput,
    Vec<f64>,
    Vec<Vec<(moe_core::StageKind, std::time::Duration)>>,
);

fn launch(args: &RunArgs, case: &Case) -> Result<Launches, CliError> {
    let interrupted = interrupt_flag();
    let bar = data::progress_bar((args.warmup + args.repeat).into(), "running");
    let mut seconds = Vec::new();
    let mut stage_times = Vec::new();
    let mut last = None;
    for number in 0..args.warmup + args.repeat {
        let start = Instant::now();
        let output = reference::run(&case.problem, &case.inputs, ActivationOptions::default());
        if number >= args.warmup {
            seconds.push(start.elapsed().as_secs_f64());
            stage_times.push(output.stage_times.clone());
        }
        last = Some(output);
        bar.inc(1);
        if interrupted.load(Ordering::Relaxed) {
            return Err(CliError::Interrupted);
        }
    }
    bar.finish_and_clear();
    let output = last.ok_or_else(|| CliError::Request("--repeat must be at least 1".to_owned()))?;
    Ok((output, seconds, stage_times))
}

fn write_outputs(
    dir: &Path,
    args: &RunArgs,
    problem: &Problem,
    output: &LayerOutput,
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
    files::write_outputs(dir, files::OUT, &output.out)?;
    Ok(())
}

fn verify(
    args: &RunArgs,
    case: &Case,
    output: &LayerOutput,
    operations: f64,
) -> Result<Option<Verified>, CliError> {
    let default = if operations <= FULL_VERIFY_OPERATIONS {
        VerifyMode::Full
    } else {
        VerifyMode::Sample
    };
    let problem = &case.problem;
    let compare = |got: &[Vec<u16>], want: &[Vec<u16>], tolerance: &Tolerance, against| {
        let comparison = Comparison::of(problem.output_type(), problem.hidden(), got, want);
        Some(Verified {
            right: comparison.within(tolerance),
            against,
            comparison,
        })
    };
    let mode = args.verify.unwrap_or(default);
    if mode == VerifyMode::None {
        return Ok(None);
    }
    if let Some(expected) = &case.expected {
        return Ok(compare(
            &output.out,
            expected,
            &case.tolerance,
            "expected_out",
        ));
    }
    let activation = ActivationOptions::default();
    if mode == VerifyMode::Full {
        let want = reference::run(problem, &case.inputs, activation).out;
        return Ok(compare(&output.out, &want, &Tolerance::EXACT, "the oracle"));
    }
    let chosen = sample::choose(problem, SAMPLE_TOKENS, args.data.seed());
    let want = sample::run(problem, &case.inputs, &chosen, activation)?;
    let got = sample::take(problem, &output.out, &chosen);
    Ok(compare(
        &got,
        &want,
        &Tolerance::EXACT,
        "the oracle, a sample of tokens",
    ))
}
