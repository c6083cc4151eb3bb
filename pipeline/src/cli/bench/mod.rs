//! `megamoe bench`.

mod cases;
mod figures;
mod guard;
mod print;

use clap::{Args, ValueEnum};
use megamoe_bench::machine::Machine;
use megamoe_window::world::RankCommand;
use serde::Serialize;

use super::ranks::{self, RankKind, StageSet, WorldArgs};
use super::report::{self, median};
use super::{CliError, Outcome};
use cases::BenchCase;
use figures::{Figures, WARMUP};

/// Arguments of `megamoe bench`.
#[derive(Args)]
pub(super) struct BenchArgs {
    /// What to measure.
    #[arg(value_enum, value_name = "SUITE", default_values = ["goals", "launch", "ranks"])]
    suites: Vec<Suite>,
    /// Most bytes of weights of a model, in GiB; others are left out.
    #[arg(long, value_name = "GIB", default_value_t = 12)]
    max_gib: u64,
    /// Only cases whose name contains this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Seed of values and routes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// Many tokens, few tokens, and the published sizes on 8 ranks.
    Goals,
    /// Layers of published models.
    Models,
    /// Time against tokens, experts, ranks and skew.
    Scaling,
    /// Ranks as threads against ranks as processes.
    Ranks,
    /// A launch with almost no work.
    Launch,
    /// Ratios that must hold; exit status 1 where one does not.
    Guard,
}

/// Everything that was measured.
#[derive(Serialize)]
struct BenchReport {
    commit: &'static str,
    seed: u64,
    machine: Machine,
    cases: Vec<Figures>,
    series: Vec<Series>,
    ranks: Option<RankKinds>,
    launch: Option<LaunchFigure>,
    guard: Vec<guard::Ratio>,
}

/// Cases in which one size varies.
#[derive(Serialize)]
struct Series {
    varied: &'static str,
    cases: Vec<Figures>,
}

/// Median milliseconds of a launch.
#[derive(Serialize)]
struct RankKinds {
    threads_ms: f64,
    processes_ms: f64,
}

/// Milliseconds of a launch.
#[derive(Serialize)]
struct LaunchFigure {
    p50_ms: f64,
    p99_ms: f64,
}

/// Runs it.
pub(super) fn run(args: &BenchArgs) -> Result<Outcome, CliError> {
    let machine = Machine::measure();
    if !args.json {
        print::machine(&machine, env!("MEGAMOE_COMMIT"), args.seed);
    }
    let mut report = BenchReport {
        commit: env!("MEGAMOE_COMMIT"),
        seed: args.seed,
        machine,
        cases: Vec::new(),
        series: Vec::new(),
        ranks: None,
        launch: None,
        guard: Vec::new(),
    };
    for suite in &args.suites {
        args.measure(*suite, &mut report)?;
    }
    if args.json {
        report::print_json(&report)?;
    }
    Ok(outcome(&report))
}

/// Wrong when fused and separate differ in a bit, or a guarded ratio does not hold.
fn outcome(report: &BenchReport) -> Outcome {
    let in_series = report.series.iter().flat_map(|series| &series.cases);
    let same_bits = report
        .cases
        .iter()
        .chain(in_series)
        .all(|case| case.same_bits);
    if same_bits && report.guard.iter().all(guard::Ratio::holds) {
        Outcome::Right
    } else {
        Outcome::Wrong
    }
}

impl BenchArgs {
    fn measure(&self, suite: Suite, report: &mut BenchReport) -> Result<(), CliError> {
        match suite {
            Suite::Goals => self.cases(cases::goals(), report),
            Suite::Models => {
                self.cases(cases::models(self.max_gib.saturating_mul(1 << 30)), report)
            }
            Suite::Scaling => self.scaling(report),
            Suite::Ranks => self.ranks(report),
            Suite::Launch => self.launch(report),
            Suite::Guard => self.guard(report),
        }
    }

    fn cases(&self, cases: Vec<BenchCase>, report: &mut BenchReport) -> Result<(), CliError> {
        let wanted = cases
            .into_iter()
            .filter(|case| case.name.contains(&self.filter));
        for case in wanted {
            let figures = figures::measure(&case, &report.machine, self.seed)?;
            if !self.json {
                print::case(&figures);
            }
            report.cases.push(figures);
        }
        Ok(())
    }

    fn scaling(&self, report: &mut BenchReport) -> Result<(), CliError> {
        let series = cases::series();
        for (varied, cases) in series
            .into_iter()
            .filter(|(name, _)| name.contains(&self.filter))
        {
            let measure = |case: &BenchCase| figures::measure(case, &report.machine, self.seed);
            let cases = cases.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
            if !self.json {
                print::series(varied, &cases);
            }
            report.series.push(Series { varied, cases });
        }
        Ok(())
    }

    fn ranks(&self, report: &mut BenchReport) -> Result<(), CliError> {
        let case = cases::ranks_kinds();
        let threads = figures::run_fused(&case, self.seed)?;
        let processes = WorldArgs::of(RankKind::Processes, StageSet::Fused, WARMUP, case.repeat);
        let command = process_command(&case, self.seed)?;
        let processes = ranks::run_processes(&processes, &case.problem()?, &command)?;
        let kinds = RankKinds {
            threads_ms: median(&threads.launch_seconds) * 1e3,
            processes_ms: median(&processes.launch_seconds) * 1e3,
        };
        if !self.json {
            print::ranks(&kinds, &case);
        }
        report.ranks = Some(kinds);
        Ok(())
    }

    fn launch(&self, report: &mut BenchReport) -> Result<(), CliError> {
        let run = figures::run_fused(&cases::launch(), self.seed)?;
        let figure = LaunchFigure {
            p50_ms: median(&run.launch_seconds) * 1e3,
            p99_ms: figures::percentile(&run.launch_seconds, 0.99) * 1e3,
        };
        if !self.json {
            print::launch(&figure);
        }
        report.launch = Some(figure);
        Ok(())
    }

    fn guard(&self, report: &mut BenchReport) -> Result<(), CliError> {
        let figures = figures::measure(&cases::guard(), &report.machine, self.seed)?;
        let ratios = guard::ratios(&figures);
        if !self.json {
            print::guard(&ratios);
        }
        report.cases.push(figures);
        report.guard = ratios;
        Ok(())
    }
}

/// What makes a process a rank of the case: `megamoe run` with its sizes.
fn process_command(case: &BenchCase, seed: u64) -> Result<RankCommand, CliError> {
    let mut command = RankCommand::this()?;
    let fixed = ["run", "--ranks", "processes", "--verify", "none"].map(str::to_owned);
    let (warmup, repeat) = (WARMUP.to_string(), case.repeat.to_string());
    let launches = ["--warmup".to_owned(), warmup, "--repeat".to_owned(), repeat];
    let arguments = fixed
        .into_iter()
        .chain(launches)
        .chain(case.run_arguments(seed));
    command.arguments = arguments.map(Into::into).collect();
    Ok(command)
}
