//! Runs the ranks of a world, as threads or as processes, and gathers what they measured.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use megamoe_device::{Executor, ExecutorOptions};
use megamoe_pipeline::layer::{CoreTimeline, Dropped};
use megamoe_pipeline::schedule::Schedule;
use megamoe_pipeline::trace::Timeline;
use megamoe_window::world::{BoxError, Joined, RankCommand};
use megamoe_window::{WindowLayout, World};
use moe_core::{Problem, RankInputs, Soc, StageKind};
use serde::{Deserialize, Serialize};

use super::npu::BUFFER_VARIABLE;
use super::place::{Devices, RankPlace};
use super::report::StageSeconds;
use super::{CliError, data};

/// How ranks run.
#[derive(Args, Clone, Debug)]
pub(super) struct WorldArgs {
    /// What a rank is.
    #[arg(long, value_enum, default_value_t = RankKind::Threads)]
    pub(super) ranks: RankKind,
    /// What device kernels run on.
    #[arg(long, value_enum, default_value_t = DeviceKind::Virtual)]
    pub(super) device: DeviceKind,
    /// What runs the stages.
    #[arg(long, value_enum, default_value_t = StageSet::Fused)]
    pub(super) stages: StageSet,
    /// Schedule of the fused kernel: seed, stages, waves, or a TOML file [default: waves on host, else seed].
    #[arg(long, value_name = "FILE|NAME")]
    schedule: Option<String>,
    /// Succeed even if a rank's capacity drops routes.
    #[arg(long)]
    pub(super) allow_drop: bool,
    /// What the virtual device is: host, or an Ascend to be imitated (Ascend910B1 ..).
    #[arg(long, value_name = "NAME", default_value = "host")]
    soc: String,
    /// Seconds that a rank waits for a peer before it gives up.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = positive)]
    deadline: f64,
    /// Bytes of a rank's window, where they are fixed; HCCL_BUFFSIZE (in MB) says the same.
    #[arg(long, value_name = "BYTES")]
    window_bytes: Option<u64>,
    /// Launches that are timed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Launches before those.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) warmup: u32,
}

/// What device kernels run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DeviceKind {
    /// The virtual device, on this machine's processors.
    Virtual,
    /// NPUs, one for each rank.
    Ascend,
}

/// What runs the stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StageSet {
    /// One kernel of all stages, on the virtual device.
    Fused,
    /// A kernel for each stage, one after the other, on the virtual device.
    Separate,
    /// The oracles, in plain Rust.
    Oracle,
}

impl StageSet {
    fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused kernel",
            Self::Separate => "separate kernels",
            Self::Oracle => "oracle",
        }
    }
}

/// What a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RankKind {
    /// A thread of this process.
    Threads,
    /// A process of its own.
    Processes,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e6 => Ok(value),
        _ => Err("must be a number of seconds from above 0 to 1000000".to_owned()),
    }
}

/// Bytes that HCCL_BUFFSIZE grants to a window.
fn hccl_window_bytes() -> Result<Option<u64>, CliError> {
    let Some(value) = std::env::var_os(BUFFER_VARIABLE) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match value
        .parse::<u64>()
        .ok()
        .and_then(|mb| mb.checked_mul(1 << 20))
    {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(CliError::Request(format!(
            "{BUFFER_VARIABLE} is {value:?}, but must be a number of MB"
        ))),
    }
}

impl WorldArgs {
    /// `host` and its own schedule, with these stages and launches. Ranks wait long for each other: weights of many
    /// gigabytes are loaded at different speeds.
    pub(super) fn of(ranks: RankKind, stages: StageSet, warmup: u32, repeat: u32) -> Self {
        Self {
            ranks,
            device: DeviceKind::Virtual,
            stages,
            schedule: None,
            allow_drop: false,
            soc: "host".to_owned(),
            deadline: 120.0,
            window_bytes: None,
            repeat,
            warmup,
        }
    }

    /// The world for a problem.
    pub(super) fn world(&self, problem: &Problem) -> Result<World, CliError> {
        let layout = WindowLayout::new(problem)?;
        let fixed = match self.window_bytes {
            Some(bytes) => Some(bytes),
            None => hccl_window_bytes()?,
        };
        if let Some(bytes) = fixed {
            layout.check_fits(bytes)?;
        }
        Ok(World::new(layout).with_deadline(Duration::from_secs_f64(self.deadline)))
    }

    /// Checks what can be before ranks start.
    pub(super) fn check(&self, problem: &Problem) -> Result<(), CliError> {
        self.world(problem)?;
        if self.device == DeviceKind::Virtual {
            self.schedule(&self.soc()?, problem)?;
        } else if self.stages == StageSet::Oracle {
            let message = "--stages oracle is plain Rust: it does not run on --device ascend";
            return Err(CliError::Request(message.to_owned()));
        }
        Ok(())
    }

    /// Name of what runs the stages, for reports.
    pub(super) fn stages_name(&self) -> &'static str {
        self.stages.name()
    }

    /// The device's description.
    pub(super) fn soc(&self) -> Result<Soc, CliError> {
        Ok(Soc::named(&self.soc)?.on_this_machine())
    }

    /// The schedule of the fused kernel, checked against the device and the problem.
    pub(super) fn schedule(&self, soc: &Soc, problem: &Problem) -> Result<Schedule, CliError> {
        let name = self.schedule.as_deref();
        let schedule = Schedule::named(name.unwrap_or_else(|| Schedule::default_name(soc)))?;
        schedule.resolve(soc, problem.experts_per_rank())?;
        if name.is_some() && self.stages != StageSet::Fused {
            let message =
                "--schedule is for --stages fused: separate stages take all cores in turn";
            return Err(CliError::Request(message.to_owned()));
        }
        Ok(schedule)
    }

    /// Whether the run leaves a timeline.
    pub(super) fn is_fused(&self) -> bool {
        self.stages == StageSet::Fused
    }

    /// An executor for `num_devices` ranks of this process out of those of the world.
    pub(super) fn executor(
        &self,
        num_devices: usize,
        num_ranks: u32,
    ) -> Result<Arc<Executor>, CliError> {
        let options = ExecutorOptions {
            num_devices,
            has_outside_peers: num_devices < num_ranks as usize,
            deadline: Duration::from_secs_f64(self.deadline),
            ..ExecutorOptions::default()
        };
        Ok(Arc::new(Executor::new(options)?))
    }

    pub(super) fn num_launches(&self) -> u32 {
        self.warmup + self.repeat
    }
}

/// What one rank measured and computed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RankRun {
    /// Seconds of each timed launch.
    pub(super) launch_seconds: Vec<f64>,
    /// Times in each stage of each timed launch, in the order of [`StageKind::ALL`].
    pub(super) stage_times: Vec<Vec<StageSeconds>>,
    /// Routes that the last launch dropped.
    pub(super) dropped: Vec<Dropped>,
    /// Seconds that the last launch waited for each rank.
    pub(super) peer_waits: Vec<f64>,
    /// What each core did in the last launch.
    pub(super) cores: Vec<CoreTimeline>,
    /// Output of the last launch.
    #[serde(skip)]
    pub(super) out: Vec<u16>,
}

/// What all ranks did.
#[derive(Debug)]
pub(super) struct WorldRun {
    /// Output of each rank.
    pub(super) out: Vec<Vec<u16>>,
    /// Seconds of each timed launch, of its slowest rank.
    pub(super) launch_seconds: Vec<f64>,
    /// Times in each stage: mean over ranks and timed launches.
    pub(super) stage_times: Vec<(StageKind, StageSeconds)>,
    /// Routes that the last launch dropped.
    pub(super) dropped: Vec<Dropped>,
    /// Seconds that each rank waited for each other in the last launch; empty where that is not known.
    pub(super) peer_waits: Vec<Vec<f64>>,
    /// What the cores of each rank did in the last launch; empty unless it was one kernel.
    pub(super) timeline: Timeline,
}

impl WorldRun {
    fn gather(ranks: Vec<RankRun>) -> Self {
        let num_launches = ranks.first().map_or(0, |rank| rank.launch_seconds.len());
        let slowest = |launch: usize| {
            let seconds = ranks.iter().map(|rank| rank.launch_seconds[launch]);
            seconds.fold(0.0, f64::max)
        };
        let mean = |(place, kind): (usize, StageKind)| {
            let launches = ranks.iter().flat_map(|rank| &rank.stage_times);
            let times: Vec<_> = launches.filter_map(|stages| stages.get(place)).collect();
            (kind, StageSeconds::mean(&times))
        };
        let mut run = Self {
            launch_seconds: (0..num_launches).map(slowest).collect(),
            stage_times: StageKind::ALL.into_iter().enumerate().map(mean).collect(),
            out: Vec::new(),
            dropped: Vec::new(),
            peer_waits: Vec::new(),
            timeline: Timeline::default(),
        };
        for rank in ranks {
            run.out.push(rank.out);
            run.dropped.extend(rank.dropped);
            run.peer_waits.push(rank.peer_waits);
            run.timeline.ranks.push(rank.cores);
        }
        run
    }
}

/// Runs all ranks; `inputs` holds one entry for each.
pub(super) fn run_all(
    args: &WorldArgs,
    problem: &Problem,
    inputs: &[RankInputs],
) -> Result<WorldRun, CliError> {
    if args.ranks == RankKind::Processes {
        return run_processes(args, problem, &RankCommand::this()?);
    }
    let world = args.world(problem)?;
    let devices = Devices::of(args, problem, inputs.len())?;
    let place = RankPlace {
        args,
        problem,
        devices: &devices,
    };
    let bar = data::progress_bar(args.num_launches().into(), "running");
    let runs = world.run_threads(|window| {
        let rank = window.rank();
        let launched = || {
            if rank == 0 {
                bar.inc(1);
            }
        };
        place.run(window, &inputs[rank as usize], &launched)
    });
    bar.finish_and_clear();
    Ok(WorldRun::gather(runs.map_err(CliError::of_world)?))
}

/// Runs all ranks as processes; `command` makes each the rank of a run with the same problem.
pub(super) fn run_processes(
    args: &WorldArgs,
    problem: &Problem,
    command: &RankCommand,
) -> Result<WorldRun, CliError> {
    let bar = ProgressBar::new_spinner().with_message("running ranks as processes");
    bar.enable_steady_tick(Duration::from_millis(200));
    let results = args.world(problem)?.run_processes(command);
    bar.finish_and_clear();
    let results = results.map_err(CliError::of_world)?;
    let runs: Result<_, _> = results.iter().map(|bytes| decode(bytes)).collect();
    Ok(WorldRun::gather(runs?))
}

/// The work of a rank that another process started: all its launches, on its own inputs.
pub(super) fn run_joined(
    args: &WorldArgs,
    problem: &Problem,
    joined: &mut Joined,
    inputs: &RankInputs,
) -> Result<RankRun, BoxError> {
    let devices = Devices::of(args, problem, 1)?;
    let place = RankPlace {
        args,
        problem,
        devices: &devices,
    };
    place.run(joined.window(), inputs, &|| ())
}

/// A rank's run as bytes: length of the figures, figures, output.
pub(super) fn encode(run: &RankRun) -> Result<Vec<u8>, BoxError> {
    let figures = serde_json::to_vec(run)?;
    let mut bytes = (figures.len() as u64).to_le_bytes().to_vec();
    bytes.extend(figures);
    bytes.extend_from_slice(bytemuck::cast_slice(&run.out));
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<RankRun, CliError> {
    let broken = || CliError::Failed("a rank's result is broken".to_owned());
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(broken)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| broken())?;
    let (figures, out) = rest.split_at_checked(length).ok_or_else(broken)?;
    let mut run: RankRun = serde_json::from_slice(figures).map_err(|_| broken())?;
    run.out = bytemuck::pod_collect_to_vec(out);
    Ok(run)
}

impl RankRun {
    /// What a rank that reports for itself did.
    pub(super) fn alone(self) -> WorldRun {
        WorldRun::gather(vec![self])
    }
}
