//! Removes each synchronisation of the kernels in turn, and looks whether checked mode reports it.
//!
//!     cargo run --release -p megamoe-mutants -- all             every site, about a quarter of an hour
//!     cargo run --release -p megamoe-mutants -- all --sample 20 some of them, as CI does
//!     cargo run --release -p megamoe-mutants -- all --table docs/mutants.md
//!
//! A mutant is compiled from a copy of the sources and run in a process of its own.
#![deny(missing_docs)]

mod scenario;
mod sites;
mod table;
mod workshop;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use indicatif::ProgressBar;
use megamoe_device::checked::CheckedKernels;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use scenario::SCENARIOS;
use sites::Site;
use table::Row;
use workshop::Workshop;

/// Removes each synchronisation of the kernels in turn, and looks whether checked mode reports it.
///
/// Exit status: 0 every mutant was reported, 1 one was not, 2 one could not be made or run.
#[derive(Parser)]
#[command(name = "mutants", version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Print the sites.
    List,
    /// Make and run mutants.
    All {
        /// Only so many, evenly spread.
        #[arg(long, value_name = "N")]
        sample: Option<usize>,
        /// Only those whose file or change has this text.
        #[arg(long, value_name = "TEXT", default_value = "")]
        filter: String,
        /// Write sites and verdicts to this file, as Markdown.
        #[arg(long, value_name = "FILE")]
        table: Option<PathBuf>,
    },
    /// Run one mutant's library in this process.
    #[command(hide = true)]
    Run {
        /// The library.
        library: PathBuf,
    },
}

/// What became of a mutant.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Verdict {
    /// Checked mode reported it: under which launches, and its first words.
    Reported(String, String),
    /// It ran clean under all of them.
    Survived,
    /// It could not be run.
    Broken(String),
    /// It was not made: the source says what the site is for.
    Exempt(String),
}

/// Longest run of a mutant.
const LIMIT: Duration = Duration::from_secs(240);

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Task::List => list(),
        Task::All {
            sample,
            filter,
            table,
        } => all(sample, &filter, table.as_deref()),
        Task::Run { library } => run(&library),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn list() -> Result<bool, BoxError> {
    for site in Workshop::open()?.sites() {
        println!("{}:{}: {}", site.file, site.line, site.what);
    }
    Ok(true)
}

fn all(sample: Option<usize>, filter: &str, table: Option<&Path>) -> Result<bool, BoxError> {
    let workshop = Workshop::open()?;
    let mut sites = workshop.sites();
    sites.retain(|site| site.file.contains(filter) || site.what.contains(filter));
    if let Some(count) = sample.filter(|&count| count < sites.len()) {
        let every = |i: usize| sites[i * sites.len() / count].clone();
        sites = (0..count).map(every).collect();
    }
    // First as they are: what is reported then is not the mutants' doing.
    match verdict(&workshop, None)? {
        Verdict::Survived => (),
        other => return Err(format!("the kernels as they are: {other:?}").into()),
    }
    let bar = ProgressBar::new(sites.len() as u64);
    let rows: Result<Vec<Row>, BoxError> = sites
        .par_iter()
        .map(|site| {
            let verdict = match &site.exempt {
                Some(reason) => Verdict::Exempt(reason.clone()),
                None => verdict(&workshop, Some(site))?,
            };
            bar.inc(1);
            Ok(Row::new(site, verdict))
        })
        .collect();
    bar.finish_and_clear();
    let rows = rows?;
    table::print(&rows);
    if let Some(path) = table {
        std::fs::write(path, table::markdown(&rows))?;
    }
    Ok(rows.iter().all(|row| row.is_reported() || row.is_exempt()))
}

/// Makes a mutant and runs it in a process of its own, which it may bring down.
fn verdict(workshop: &Workshop, site: Option<&Site>) -> Result<Verdict, BoxError> {
    let folder = tempfile::tempdir()?;
    let library = match workshop.build(site, folder.path()) {
        Ok(library) => library,
        Err(error) => return Ok(Verdict::Broken(error.to_string())),
    };
    let mut child = Command::new(std::env::current_exe()?)
        .arg("run")
        .arg(&library)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(Verdict::Broken(format!("still running after {LIMIT:?}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output()?;
    let verdict = serde_json::from_slice(&output.stdout);
    Ok(verdict
        .unwrap_or_else(|_| Verdict::Broken(format!("its process ended with {}", output.status))))
}

/// Runs a library's kernels under every scenario until one reports something.
fn run(library: &Path) -> Result<bool, BoxError> {
    // SAFETY: the library was built from kernels with the arguments of this executable's, by its parent process.
    let kernels = unsafe { CheckedKernels::open(library) }?;
    let mut verdict = Verdict::Survived;
    for scenario in SCENARIOS {
        let checked = scenario.run(Some(&kernels))?;
        if !checked.is_clean() {
            let finding = checked.verdict.findings.first().map(|finding| {
                let text = finding.to_string();
                text.lines().next().unwrap_or_default().to_owned()
            });
            let error = checked.error.unwrap_or_default();
            let first_line = || error.lines().next().unwrap_or_default().to_owned();
            let words = finding.unwrap_or_else(first_line);
            verdict = Verdict::Reported(scenario.name.to_owned(), words);
            break;
        }
    }
    println!("{}", serde_json::to_string(&verdict)?);
    Ok(true)
}
