//! `megamoe check`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use megamoe_device::checked::{Check, Finding};
use megamoe_pipeline::case::Case;
use megamoe_pipeline::check::{CheckOptions, Checked, check};
use megamoe_pipeline::generate::generate;
use megamoe_pipeline::reference;
use megamoe_pipeline::schedule::Schedule;
use megamoe_swiglu::reference::ActivationOptions;
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{Problem, RankInputs, Soc};
use serde::Serialize;

use super::data::{self, DataArgs};
use super::problem::{CaseArgs, ProblemArgs};
use super::{CliError, Outcome, report};

/// Arguments of `megamoe check`.
#[derive(Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    case: CaseArgs,
    #[command(flatten)]
    problem: ProblemArgs,
    #[command(flatten)]
    data: DataArgs,
    /// Which kernels: the fused one, those of the stages, or both.
    #[arg(long, value_enum, default_value_t = Kernels::Both)]
    kernels: Kernels,
    /// Device that is imitated.
    #[arg(long, value_name = "NAME", default_value = "Ascend910B1")]
    soc: String,
    /// Matrix cores of each rank; each has two vector cores.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    cores: u32,
    /// Schedule of the fused kernel: seed, stages, waves, or a TOML file.
    #[arg(long, value_name = "FILE|NAME", default_value = "waves")]
    schedule: String,
    /// Orders in which cores run, each tried.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    orders: u64,
    /// Launches of each, with nothing cleared between.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    launches: u32,
    /// Routes may be dropped.
    #[arg(long)]
    allow_drop: bool,
    /// Seconds that a core waits before it gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    deadline: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kernels {
    Fused,
    Stages,
    Both,
}

/// What all runs came to.
#[derive(Serialize)]
struct Report {
    clean: bool,
    runs: u64,
    instructions: u64,
    seconds: f64,
    peak_bytes: u64,
    findings: Vec<Finding>,
    errors: Vec<String>,
    /// Whether all outputs were the oracle's.
    outputs_right: bool,
}

/// Runs it.
pub(super) fn run(args: &CheckArgs) -> Result<Outcome, CliError> {
    let (problem, inputs) = load(args)?;
    let soc = Soc {
        num_aic: args.cores,
        ..Soc::named(&args.soc)?
    };
    let schedule = Schedule::named(&args.schedule)?;
    let schedules: Vec<Option<Schedule>> = match args.kernels {
        Kernels::Fused => vec![Some(schedule)],
        Kernels::Stages => vec![None],
        Kernels::Both => vec![Some(schedule), None],
    };
    for schedule in schedules.iter().flatten() {
        schedule.resolve(&soc, problem.experts_per_rank())?;
    }
    let want = reference::run(&problem, &inputs, ActivationOptions::default()).out;
    let bar = data::progress_bar(args.orders * schedules.len() as u64, "checking");
    let mut report = Report {
        clean: true,
        runs: 0,
        instructions: 0,
        seconds: 0.0,
        peak_bytes: 0,
        findings: Vec::new(),
        errors: Vec::new(),
        outputs_right: true,
    };
    for seed in 0..args.orders {
        for schedule in &schedules {
            let options = CheckOptions {
                seed,
                launches: args.launches,
                allow_drop: args.allow_drop,
                deadline: Duration::from_secs(args.deadline),
                ..CheckOptions::new(soc.clone(), schedule.clone())
            };
            let checked = check(&problem, &inputs, &options)
                .map_err(|error| CliError::Failed(error.to_string()))?;
            report.add(checked, &want);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(args, &problem, &report)?;
    Ok(if report.clean {
        Outcome::Right
    } else {
        Outcome::Wrong
    })
}

fn load(args: &CheckArgs) -> Result<(Problem, Vec<RankInputs>), CliError> {
    if let Some(dir) = &args.case.case {
        args.data.refuse_beside_a_case()?;
        let case: Case = data::read(dir)?;
        return Ok((case.problem, case.inputs));
    }
    let problem = args.problem.problem()?;
    let spec = args.data.spec(RoutingKind::Uniform, DataKind::Random);
    let inputs = generate(&problem, &spec, &|| ())?;
    Ok((problem, inputs))
}

impl Report {
    fn add(&mut self, checked: Checked, want: &[Vec<u16>]) {
        let is_right = checked.out == want;
        self.clean &= checked.is_clean() && is_right;
        self.outputs_right &= is_right;
        self.runs += 1;
        self.instructions += checked.verdict.instructions;
        self.seconds += checked.time.as_secs_f64();
        self.peak_bytes = self.peak_bytes.max(checked.verdict.peak_bytes);
        self.errors.extend(checked.error);
        for finding in checked.verdict.findings {
            if !self.findings.contains(&finding) {
                self.findings.push(finding);
            }
        }
    }

    fn count(&self, check: Check) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.check == check)
            .count()
    }
}

fn print(args: &CheckArgs, problem: &Problem, report: &Report) -> Result<(), CliError> {
    if args.json {
        return report::print_json(report);
    }
    println!("{}", report::problem_line(problem));
    for finding in &report.findings {
        println!("{finding}");
    }
    for error in &report.errors {
        println!("a launch ended early: {error}");
    }
    println!(
        "{} runs, {} instructions, {:.2} s, at most {} for what is known of memory",
        report.runs,
        report.instructions,
        report.seconds,
        report::bytes(report.peak_bytes)
    );
    let counts = [
        Check::Memcheck,
        Check::Racecheck,
        Check::Initcheck,
        Check::Synccheck,
    ];
    let counts = counts.map(|check| {
        format!(
            "{} {}",
            format!("{check:?}").to_lowercase(),
            report.count(check)
        )
    });
    let outputs = if report.outputs_right {
        "right"
    } else {
        "WRONG"
    };
    println!(
        "{}: {}; outputs {outputs}",
        if report.clean { "clean" } else { "NOT CLEAN" },
        counts.join(", ")
    );
    Ok(())
}
