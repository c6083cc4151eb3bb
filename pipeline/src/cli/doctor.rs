//! `megamoe doctor`: what runs on NPUs need, what of it is there, and how to get the rest.

use std::sync::Arc;

use bisheng_build::{Bisheng, NoBisheng};
use bisheng_sys::{Cann, CannHome, Context, NoCann, Runtime};
use clap::Args;
use megamoe_device::KernelLibrary;
use megamoe_pipeline::npu;
use moe_core::Soc;
use serde::Serialize;

use super::npu::{BUFFER_VARIABLE, DEFAULT_BUFFER_MB};
use super::{CliError, Outcome, report};

/// Arguments of `megamoe doctor`.
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It is there.
    Ok,
    /// Runs on NPUs go without it.
    Note,
    /// Runs on NPUs fail without it.
    Missing,
}

impl State {
    fn sign(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Missing => "MISSING",
        }
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    found: String,
    /// What to do about it.
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    ascend_ready: bool,
    findings: Vec<Finding>,
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, what: &'static str, found: impl ToString) {
        self.add(what, State::Ok, found, None);
    }

    fn missing(&mut self, what: &'static str, found: impl ToString, fix: &str) {
        self.add(what, State::Missing, found, Some(fix.to_owned()));
    }

    fn note(&mut self, what: &'static str, found: impl ToString, fix: Option<&str>) {
        self.add(what, State::Note, found, fix.map(str::to_owned));
    }

    fn add(&mut self, what: &'static str, state: State, found: impl ToString, fix: Option<String>) {
        self.0.push(Finding {
            what,
            state,
            found: found.to_string(),
            fix,
        });
    }
}

const SOURCE_CANN: &str =
    "install CANN and `source .../set_env.sh`, or set ASCEND_HOME_PATH to its folder";
const INSTALL_COMPILER: &str =
    "install CANN's toolkit package, which has the compiler, or put `bisheng` on PATH";
const FETCH_PTO: &str = "clone the public pto-isa repository and set PTO_ISA_PATH to its folder";
const BUILD_KERNELS: &str = "build with `--features ascend` on a machine with CANN, or set MEGAMOE_NPU_KERNELS to a library built there";
const INSTALL_DRIVER: &str = "install NPU driver and firmware; `npu-smi info` must list the NPUs";

/// Runs it. `Right` when `megamoe run --device ascend` has all it needs.
pub(super) fn run(args: &DoctorArgs) -> Result<Outcome, CliError> {
    let mut findings = Findings::default();
    look_for_compiler(&mut findings);
    let runtime = look_for_runtime(&mut findings);
    look_for_kernels(&mut findings, runtime.is_some());
    if let Some(runtime) = &runtime {
        look_for_npus(&mut findings, runtime);
    }
    look_at_environment(&mut findings);
    let is_missing = |finding: &Finding| finding.state == State::Missing;
    let report = Report {
        ascend_ready: !findings.0.iter().any(is_missing),
        findings: findings.0,
    };
    print(args, &report)?;
    Ok(if report.ascend_ready {
        Outcome::Right
    } else {
        Outcome::Wrong
    })
}

fn print(args: &DoctorArgs, report: &Report) -> Result<(), CliError> {
    if args.json {
        return report::print_json(report);
    }
    for finding in &report.findings {
        println!(
            "{:>8}  {}: {}",
            finding.state.sign(),
            finding.what,
            finding.found
        );
        if let Some(fix) = &finding.fix {
            println!("{:>8}  -> {fix}", "");
        }
    }
    println!(
        "`megamoe run` works here; `megamoe run --device ascend` {}",
        if report.ascend_ready {
            "should too"
        } else {
            "does not"
        }
    );
    Ok(())
}

/// Needed to build kernels, not to run them.
fn look_for_compiler(findings: &mut Findings) {
    let home = match CannHome::find() {
        Ok(home) => {
            findings.ok("CANN", &home);
            home
        }
        Err(error @ NoCann::NoFolder { .. }) => {
            return findings.missing("CANN", error, "set it to CANN's folder, or unset it");
        }
        Err(error) => return findings.missing("CANN", error, SOURCE_CANN),
    };
    match Bisheng::find_in(&home, |variable| std::env::var_os(variable)) {
        Ok(bisheng) => {
            findings.ok("bisheng", bisheng.compiler().display());
            findings.ok("PTO headers", bisheng.pto().display());
        }
        Err(error @ NoBisheng::NoPto { .. }) => {
            findings.note("PTO headers", error, Some(FETCH_PTO));
        }
        Err(error) => findings.note("bisheng", error, Some(INSTALL_COMPILER)),
    }
}

fn look_for_runtime(findings: &mut Findings) -> Option<Arc<Runtime>> {
    let cann = match Cann::load() {
        Ok(cann) => cann,
        Err(error) => {
            findings.missing("runtime library", error, SOURCE_CANN);
            return None;
        }
    };
    findings.ok("runtime library", cann.place().display());
    match cann.no_hccl() {
        None => findings.ok("HCCL library", "there"),
        Some(error) => findings.missing("HCCL library", error, SOURCE_CANN),
    }
    match Runtime::start(&cann) {
        Ok(runtime) => {
            match runtime.version() {
                Ok([major, minor, patch]) => {
                    findings.ok("runtime version", format!("{major}.{minor}.{patch}"));
                }
                Err(error) => findings.note("runtime version", error, None),
            }
            Some(runtime)
        }
        Err(error) => {
            findings.missing("runtime", error, INSTALL_DRIVER);
            None
        }
    }
}

fn look_for_kernels(findings: &mut Findings, has_runtime: bool) {
    const WHAT: &str = "kernels for NPUs";
    let path = match npu::kernel_library() {
        Ok(path) => path,
        Err(error) => return findings.missing(WHAT, error, BUILD_KERNELS),
    };
    // Opening it without CANN's libraries says only that they are not there.
    if !has_runtime {
        return findings.note(WHAT, format!("{} (not opened)", path.display()), None);
    }
    match KernelLibrary::open(&path) {
        Err(error) => findings.missing(WHAT, error, BUILD_KERNELS),
        Ok(library) => match library.missing(&npu::kernels()).as_slice() {
            [] => findings.ok(WHAT, library.path().display()),
            missing => {
                let found = format!("{} lacks {}", path.display(), missing.join(", "));
                findings.missing(WHAT, found, BUILD_KERNELS);
            }
        },
    }
}

fn look_for_npus(findings: &mut Findings, runtime: &Arc<Runtime>) {
    const WHAT: &str = "NPUs";
    match runtime.num_devices() {
        Ok(0) => findings.missing(WHAT, "none", INSTALL_DRIVER),
        Ok(count) => {
            findings.ok(WHAT, count);
            for device in 0..count {
                look_at_npu(findings, runtime, device);
            }
        }
        Err(error) => findings.missing(WHAT, error, INSTALL_DRIVER),
    }
}

fn look_at_npu(findings: &mut Findings, runtime: &Arc<Runtime>, device: u32) {
    const WHAT: &str = "NPU";
    let described = Context::open(runtime, device).and_then(|context| {
        let (name, cores) = (context.soc_name()?, context.cores()?);
        let (free, total) = context.memory()?;
        Ok((name, cores, free, total))
    });
    let (name, cores, free, total) = match described {
        Ok(described) => described,
        Err(error) => {
            let fix = "another process may hold it: `npu-smi info`";
            return findings.missing(WHAT, format!("{device}: {error}"), fix);
        }
    };
    let found = format!(
        "{device}: {name}, {} matrix and {} vector cores, {} of {} free",
        cores.num_aic,
        cores.num_aiv,
        report::bytes(free),
        report::bytes(total)
    );
    match Soc::named(&name) {
        Ok(_) => findings.ok(WHAT, found),
        Err(error) => {
            let fix = "add its cores and memories to moe-core/socs.toml";
            findings.missing(WHAT, format!("{found}; {error}"), fix);
        }
    }
}

fn look_at_environment(findings: &mut Findings) {
    match std::env::var(BUFFER_VARIABLE) {
        Err(_) => findings.ok(
            BUFFER_VARIABLE,
            format!("not set ({DEFAULT_BUFFER_MB} MB); `megamoe run` raises it where a problem needs more"),
        ),
        Ok(value) if value.parse::<u64>().is_ok() => {
            let fix = "`megamoe plan` prints what a problem needs; unset it to have it raised";
            findings.note(BUFFER_VARIABLE, format!("{value} MB"), Some(fix));
        }
        Ok(value) => findings.missing(
            BUFFER_VARIABLE,
            format!("{value:?} is no number of MB"),
            "unset it, or set it to a number",
        ),
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).map(|folder| folder.join("mpirun"));
    match folders.find(|file| file.is_file()) {
        Some(file) => findings.ok("mpirun", file.display()),
        None => {
            let fix = "not needed: `megamoe run --ranks processes` starts ranks itself";
            findings.note("mpirun", "not on PATH", Some(fix));
        }
    }
}
