//! Command line: what it takes, what it prints, how it ends.

mod bench;
mod check;
mod data;
mod doctor;
mod gen_case;
mod npu;
mod place;
mod plan;
mod problem;
mod ranks;
mod report;
mod run;
mod timeline;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use megamoe_device::DeviceError;
use megamoe_pipeline::case::CaseError;
use megamoe_pipeline::npu::NpuError;
use megamoe_pipeline::schedule::ScheduleError;
use megamoe_pipeline::trace::chrome::TraceError;
use megamoe_window::{WindowSizeError, WorldError};
use moe_core::routing::RoutingError;
use moe_core::soc::UnknownSoc;
use moe_core::{InputError, PlanError, ProblemError};

/// One fused mixture-of-experts FFN layer over several ranks, on a virtual Ascend device.
///
/// Exit status: 0 the result is right, 1 it is wrong, 2 the request can't be carried out, 3 a rank
/// failed while it was.
#[derive(Parser)]
#[command(name = "megamoe", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Say more (-v: info, -vv: debug, -vvv: trace); RUST_LOG overrides it.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Run the layer and verify its output.
    Run(Box<run::RunArgs>),
    /// Write a case folder: description, inputs and expected outputs.
    Gen(gen_case::GenArgs),
    /// Compare the output files of a run with the expected ones, or with the oracle.
    Verify(verify::VerifyArgs),
    /// Run the layer in checked mode: memory, races, initialisation, flags.
    Check(Box<check::CheckArgs>),
    /// Draw when each expert of a fused launch was in which stage.
    Timeline(timeline::TimelineArgs),
    /// Measure the machine, then the layer as shares of what the machine can do.
    Bench(bench::BenchArgs),
    /// Print what a run will need: memory, windows, tilings.
    Plan(plan::PlanArgs),
    /// Look for what runs on NPUs need, and say how to get what is missing.
    Doctor(doctor::DoctorArgs),
}

/// How a command ends when it does not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The result is right, or nothing was to be verified.
    Right,
    /// The result is wrong.
    Wrong,
}

/// A request that can't be carried out.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Problem(#[from] ProblemError),
    #[error(transparent)]
    Routing(#[from] RoutingError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{0}")]
    Request(String),
    #[error(transparent)]
    Window(#[from] WindowSizeError),
    #[error(transparent)]
    Soc(#[from] UnknownSoc),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error("{}: {source}", path.display())]
    Trace {
        path: std::path::PathBuf,
        source: TraceError,
    },
    #[error(transparent)]
    Npu(#[from] NpuError),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("{0}")]
    Failed(String),
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    /// A world that failed because of Ctrl-C was interrupted.
    fn of_world(error: WorldError) -> Self {
        if run::interrupt_flag().load(std::sync::atomic::Ordering::Relaxed) {
            Self::Interrupted
        } else {
            Self::World(error)
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Interrupted => INTERRUPTED,
            Self::World(_) | Self::Failed(_) => FAILED,
            _ => BAD_INPUT,
        }
    }
}

const BAD_INPUT: u8 = 2;
const FAILED: u8 = 3;
const INTERRUPTED: u8 = 130;

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(cli.verbose);
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Gen(args) => gen_case::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Timeline(args) => timeline::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match result {
        Ok(Outcome::Right) => ExitCode::SUCCESS,
        Ok(Outcome::Wrong) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", one_line(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Parsers' messages span lines; an error of this command is one.
fn one_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn start_logging(verbose: u8) {
    let level = ["warn", "info", "debug", "trace"][usize::from(verbose.min(3))];
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
