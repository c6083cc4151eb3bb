//! The layer on one rank: built once, launched as often as wanted.
//!
//! ```
//! use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
//! use megamoe_pipeline::layer::MegaMoe;
//! use megamoe_window::{WindowLayout, World};
//! use moe_core::data::DataKind;
//! use moe_core::routing::RoutingKind;
//! use moe_core::{FloatType, ProblemSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Two ranks, four experts on each; rank 1 has no tokens of its own.
//! let problem = ProblemSpec {
//!     tokens_per_rank: vec![16, 0],
//!     hidden: 64,
//!     intermediate: 32,
//!     experts_per_rank: 4,
//!     top_k: 2,
//!     max_output_size: 32,
//!     input_type: FloatType::Bf16,
//!     output_type: FloatType::Bf16,
//! }
//! .build()?;
//! let data = DataSpec {
//!     kind: DataKind::Random,
//!     routing: RoutingSource::Made(RoutingKind::Uniform),
//!     seed: 1,
//! };
//! let inputs = generate(&problem, &data, &|| ())?;
//!
//! // Every rank does the same; here ranks are threads.
//! let world = World::new(WindowLayout::new(&problem)?);
//! world.run_threads(|window| {
//!     let mine = &inputs[window.rank() as usize];
//!     let mut layer = MegaMoe::builder(&problem).build(window, &mine.weights)?;
//!
//!     // Inputs as slices ...
//!     let report = layer.run(mine)?;
//!     let out = layer.output()?;
//!     assert_eq!(out.len(), mine.x.len());
//!     assert_eq!(report.num_dropped(), 0);
//!     assert_eq!(report.expert_token_nums.len(), 4);
//!
//!     // ... or written where the layer reads them, with fewer tokens than before.
//!     let num_tokens = report.num_tokens.min(5);
//!     let views = layer.inputs_mut(num_tokens)?;
//!     views.x.copy_from_slice(&mine.x[..views.x.len()]);
//!     views.topk_ids.copy_from_slice(&mine.topk_ids[..views.topk_ids.len()]);
//!     views.probs.copy_from_slice(&mine.probs[..views.probs.len()]);
//!     layer.run_in_place()?;
//!     let first = layer.output()?;
//!     assert_eq!(first, out[..first.len()], "a token's result does not depend on the others");
//!     Ok(())
//! })?;
//! # Ok(())
//! # }
//! ```

mod buffers;
mod builder;
mod fused;
pub mod fused_args;
mod log;
mod report;
mod separate;
mod stages;

use bytemuck::Pod;
use megamoe_device::{Buffer, DeviceError, download};
use megamoe_window::{Window, WindowError, WindowSizeError};
use moe_core::routing;
use moe_core::soc::UnknownSoc;
use moe_core::{InputError, PlanError, Problem, ProblemError, RankInputs, StageKind};

use crate::schedule::ScheduleError;
use buffers::Buffers;
use fused::FusedLayer;
use report::LaunchTimes;

pub use buffers::Intermediates;
pub use builder::{Builder, DeviceHandle, virtual_device};
pub use fused::FusedKernel;
pub use log::{CoreKind, CoreTimeline, Work};
#[doc(hidden)]
pub use megamoe_device::kernel;
pub use report::{Dropped, LaunchReport, StageTime};
pub use stages::{LayerPlan, LayerStages, Planner, StageEntry, planner};

/// A layer that can't be built or launched.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A stage can't run this problem.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The schedule does not suit the device.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The window failed.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// The window is too small.
    #[error(transparent)]
    WindowSize(#[from] WindowSizeError),
    /// A window of another world.
    #[error(
        "the window was made for another problem: it has {window} bytes, this problem's would have {problem}"
    )]
    OtherWindow {
        /// Bytes of the window.
        window: u64,
        /// Bytes of the problem's.
        problem: u64,
    },
    /// Inputs that do not fit.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A number of tokens that makes no problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// No such device.
    #[error(transparent)]
    Soc(#[from] UnknownSoc),
    /// More tokens than the layer was built for.
    #[error("rank {rank}: {num_tokens} tokens, but the layer was built for at most {max}")]
    TooManyTokens {
        /// Rank.
        rank: u32,
        /// Tokens asked for.
        num_tokens: u64,
        /// Tokens it was built for.
        max: u32,
    },
    /// The device's memory can't be written by the host in place.
    #[error("{name} can't be written in place on this device: pass the inputs to `run`")]
    NotHostMemory {
        /// Which input.
        name: &'static str,
    },
    /// A stage whose arguments the fused kernel would misread.
    #[error(
        "{kernel} was built with {built} as {kind}, but {stage} is written for {class:?}: build a kernel with that \
         class, or run stages separately"
    )]
    OtherClass {
        /// The kernel.
        kernel: &'static str,
        /// The position.
        kind: StageKind,
        /// Class in the kernel.
        built: &'static str,
        /// The stage.
        stage: &'static str,
        /// Its class.
        class: &'static str,
    },
    /// Routes without room, which nobody said may be dropped.
    #[error(
        "max_output_size is {max_output_size}, which is too small for this routing; dropped were: {}",
        list(.dropped)
    )]
    Dropped {
        /// Rows that the rank has room for.
        max_output_size: u32,
        /// What was dropped.
        dropped: Vec<Dropped>,
    },
}

fn list(dropped: &[Dropped]) -> String {
    let texts: Vec<String> = dropped.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Inputs of one launch on one rank. Shapes are outermost first.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// `[num_tokens, hidden]` bits of the input type.
    pub x: &'a [u16],
    /// `[num_tokens, top_k]` global expert of each route, -1 for none.
    pub topk_ids: &'a [i32],
    /// `[num_tokens, top_k]` weight of each route.
    pub probs: &'a [f32],
}

impl<'a> From<&'a RankInputs> for Tokens<'a> {
    fn from(inputs: &'a RankInputs) -> Self {
        Self {
            x: &inputs.x,
            topk_ids: &inputs.topk_ids,
            probs: &inputs.probs,
        }
    }
}

/// Where the layer reads the inputs of its next launch; shapes are those of [`Tokens`].
#[derive(Debug)]
pub struct TokensMut<'a> {
    /// Tokens.
    pub x: &'a mut [u16],
    /// Experts.
    pub topk_ids: &'a mut [i32],
    /// Weights.
    pub probs: &'a mut [f32],
}

/// A rank's layer on a device, with its weights. Build it with [`MegaMoe::builder`].
#[derive(Debug)]
pub struct MegaMoe<'a> {
    /// As it was built.
    built: Problem,
    /// With the tokens of the next launch; other ranks' numbers are those it was built for.
    problem: Problem,
    window: &'a mut Window,
    device: DeviceHandle<'a>,
    stages: LayerStages,
    plan: LayerPlan,
    buffers: Buffers,
    fused: Option<FusedLayer>,
    allow_drop: bool,
}

impl<'a> MegaMoe<'a> {
    /// Starts to build the layer of one rank. The problem's number of tokens is the most that the rank will have.
    #[must_use]
    pub fn builder(problem: &'a Problem) -> Builder<'a> {
        Builder::new(problem)
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.window.rank()
    }

    /// The window, for barriers between launches.
    pub fn window(&mut self) -> &mut Window {
        self.window
    }

    /// The stages as planned for the next launch.
    #[must_use]
    pub fn plan(&self) -> &LayerPlan {
        &self.plan
    }

    /// One launch. All ranks of the world do so, with as many tokens as each has.
    ///
    /// # Errors
    /// [`LayerError`]; inputs are checked before anything is launched.
    pub fn run<'t>(&mut self, tokens: impl Into<Tokens<'t>>) -> Result<LaunchReport, LayerError> {
        let tokens = tokens.into();
        let num_tokens = tokens.x.len() as u64 / u64::from(self.built.hidden());
        self.set_tokens(num_tokens)?;
        self.check(&tokens)?;
        let buffers = &mut self.buffers;
        buffers.x.write(0, bytemuck::cast_slice(tokens.x))?;
        buffers
            .topk_ids
            .write(0, bytemuck::cast_slice(tokens.topk_ids))?;
        buffers.probs.write(0, bytemuck::cast_slice(tokens.probs))?;
        self.launch()
    }

    /// Where the layer reads its inputs, for a next launch of `num_tokens` tokens: for who makes them in place
    /// instead of passing them to [`MegaMoe::run`]. They hold what the last launch read.
    ///
    /// # Errors
    /// [`LayerError::TooManyTokens`], and [`LayerError::NotHostMemory`] on a device whose memory the host does
    /// not see.
    pub fn inputs_mut(&mut self, num_tokens: u32) -> Result<TokensMut<'_>, LayerError> {
        self.set_tokens(num_tokens.into())?;
        let routes = self.problem.num_routes(self.window.rank()) as usize;
        let values = num_tokens as usize * self.problem.hidden() as usize;
        Ok(TokensMut {
            x: host_view("x", self.buffers.x.as_mut(), values)?,
            topk_ids: host_view("topk_ids", self.buffers.topk_ids.as_mut(), routes)?,
            probs: host_view("probs", self.buffers.probs.as_mut(), routes)?,
        })
    }

    /// One launch on what [`MegaMoe::inputs_mut`] gave access to.
    ///
    /// # Errors
    /// As [`MegaMoe::run`].
    pub fn run_in_place(&mut self) -> Result<LaunchReport, LayerError> {
        let rank = self.rank();
        let routes = self.problem.num_routes(rank) as usize;
        let topk_ids: Vec<i32> = download(self.buffers.topk_ids.as_ref(), routes)?;
        let probs: Vec<f32> = download(self.buffers.probs.as_ref(), routes)?;
        self.check_routes(&topk_ids, &probs)?;
        self.launch()
    }

    /// `[num_tokens, hidden]` bits of the output type, of the last launch.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn output(&self) -> Result<Vec<u16>, LayerError> {
        let tokens = self.problem.num_tokens(self.window.rank()) as usize;
        let values = tokens * self.problem.hidden() as usize;
        Ok(download(self.buffers.out.as_ref(), values)?)
    }

    /// What the last launch's stages left behind.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn intermediates(&self) -> Result<Intermediates, LayerError> {
        let rank = self.window.rank();
        Ok(self.buffers.intermediates(&self.problem, rank)?)
    }

    fn check(&self, tokens: &Tokens<'_>) -> Result<(), LayerError> {
        let rank = self.window.rank();
        let want = u64::from(self.problem.num_tokens(rank)) * u64::from(self.problem.hidden());
        let got = tokens.x.len() as u64;
        if got != want {
            let name = "x";
            return Err(InputError::Length {
                rank,
                name,
                got,
                want,
            }
            .into());
        }
        self.check_routes(tokens.topk_ids, tokens.probs)
    }

    fn check_routes(&self, topk_ids: &[i32], probs: &[f32]) -> Result<(), LayerError> {
        let rank = self.window.rank();
        routing::check_ids(&self.problem, rank, topk_ids).map_err(InputError::from)?;
        routing::check_probs(&self.problem, rank, probs).map_err(InputError::from)?;
        Ok(())
    }

    /// Plans for another number of tokens.
    fn set_tokens(&mut self, num_tokens: u64) -> Result<(), LayerError> {
        let rank = self.rank();
        let max = self.built.num_tokens(rank);
        let wanted = u32::try_from(num_tokens).ok().filter(|&n| n <= max);
        let Some(wanted) = wanted else {
            return Err(LayerError::TooManyTokens {
                rank,
                num_tokens,
                max,
            });
        };
        if wanted != self.problem.num_tokens(rank) {
            let mut tokens_per_rank = self.built.spec().tokens_per_rank.clone();
            tokens_per_rank[rank as usize] = wanted;
            let problem = self.built.with_tokens(tokens_per_rank)?;
            self.plan = self.stages.plan(&problem, rank, self.device.get().soc())?;
            self.problem = problem;
            self.grow_workspace()?;
        }
        Ok(())
    }

    fn grow_workspace(&mut self) -> Result<(), LayerError> {
        let needed = self.plan.list().iter().map(|s| s.workspace_bytes).max();
        let needed = needed.unwrap_or(0);
        if needed > self.buffers.workspace.len() {
            self.buffers.workspace = buffers::poisoned(self.device.get(), needed)?;
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<LaunchReport, LayerError> {
        let launch = self.window.begin()?;
        let device = self.device.get();
        device.begin();
        self.buffers.write_map(&launch)?;
        let rank = launch.window().rank();
        let times = match &mut self.fused {
            Some(fused) => {
                let cores = fused.run(device, &self.problem, rank, &self.plan, &self.buffers)?;
                LaunchTimes::fused(device.launch_time(), cores)
            }
            None => separate::run(device, &self.plan, &self.buffers)?,
        };
        self.report(times)
    }

    fn report(&self, times: LaunchTimes) -> Result<LaunchReport, LayerError> {
        let rank = self.window.rank();
        let experts = self.problem.experts_per_rank();
        let pairs = (self.problem.num_ranks() * experts) as usize;
        let counts: Vec<u32> = download(self.buffers.expert_token_nums.as_ref(), experts as usize)?;
        let dropped: Vec<u32> = download(self.buffers.dropped.as_ref(), pairs)?;
        let dropped = (0..).zip(dropped).filter(|&(_, count)| count > 0);
        let dropped: Vec<Dropped> = dropped
            .map(|(pair, count): (u32, u32)| Dropped {
                rank,
                expert: rank * experts + pair % experts,
                source: pair / experts,
                count,
            })
            .collect();
        if !dropped.is_empty() && !self.allow_drop {
            return Err(LayerError::Dropped {
                max_output_size: self.problem.max_output_size(),
                dropped,
            });
        }
        Ok(LaunchReport {
            num_tokens: self.problem.num_tokens(rank),
            expert_token_nums: counts,
            dropped,
            device_time: times.device,
            stage_times: times.stages,
            peer_waits: report::peer_waits(&times.cores),
            cores: times.cores,
        })
    }
}

fn host_view<'b, T: Pod>(
    name: &'static str,
    buffer: &'b mut dyn Buffer,
    len: usize,
) -> Result<&'b mut [T], LayerError> {
    let bytes = buffer
        .host_bytes_mut()
        .ok_or(LayerError::NotHostMemory { name })?;
    Ok(bytemuck::cast_slice_mut(&mut bytes[..len * size_of::<T>()]))
}
