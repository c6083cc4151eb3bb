//! The layer on one rank as kernels: one launch of the device for each stage, one after the other.
//!
//! [`LayerStages`] says which stages; a stage of one's own takes the place of another by its slot's type.
//! [`KernelLayer`] owns the rank's buffers and can be launched as often as wanted; nothing is cleared
//! between launches.

use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{Buffer, Device, DeviceError, PlannedStage, download, upload, view};
use megamoe_dispatch::Dispatch;
use megamoe_front_reorder::Path;
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_unpermute::Unpermute;
use megamoe_window::{Window, WindowError, WindowMap};
use moe_core::slot::{
    self, CombineIo, DispatchIo, FrontReorderIo, GmmIo, RouteMetadata, SwigluIo, UnpermuteIo,
};
use moe_core::{Gm, PlanError, Problem, RankInputs, Slot, Soc, StageKind};

use crate::rank::RankOutput;

/// Routes up to which Combine cuts rows into small blocks, so that more cores work.
const MAX_ROUTES_OF_SMALL_COMBINE: u32 = 4096;
/// Vector cores from which that pays: with fewer, whole rows occupy all of them. On 4 cores whole rows take
/// a quarter of the time (`cargo bench -p megamoe-combine`, 128 tokens).
const MIN_CORES_OF_SMALL_COMBINE: u32 = 16;

/// A layer that can't be built or launched.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// A stage can't run this problem.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The window failed.
    #[error(transparent)]
    Window(#[from] WindowError),
}

/// The stages of a layer, planned for one rank.
#[derive(Clone, Debug)]
pub struct LayerStages {
    /// Sorts, quantises, exchanges counts.
    pub front: PlannedStage<slot::FrontReorder>,
    /// Pulls rows.
    pub dispatch: PlannedStage<slot::Dispatch>,
    /// First matmul.
    pub gmm1: PlannedStage<slot::Gmm1>,
    /// Activation.
    pub swiglu: PlannedStage<slot::Swiglu>,
    /// Second matmul.
    pub gmm2: PlannedStage<slot::Gmm2>,
    /// Returns rows.
    pub combine: PlannedStage<slot::Combine>,
    /// Sums rows.
    pub unpermute: PlannedStage<slot::Unpermute>,
}

impl LayerStages {
    /// The standard stages, with the variants that suit the problem.
    ///
    /// # Errors
    /// As [`moe_core::Stage::plan`] of each.
    pub fn standard(
        problem: &Problem,
        rank: u32,
        soc: &Soc,
        activation: ActivationOptions,
    ) -> Result<Self, PlanError> {
        let path = Path::choose(problem, rank, soc);
        let swiglu = Swiglu {
            options: activation,
        };
        let is_small = problem.num_routes(rank) <= MAX_ROUTES_OF_SMALL_COMBINE
            && soc.num_aiv() >= MIN_CORES_OF_SMALL_COMBINE;
        let combine = if is_small {
            PlannedStage::new(&DirectSmall, problem, rank, soc)?
        } else {
            PlannedStage::new(&DirectLarge, problem, rank, soc)?
        };
        Ok(Self {
            front: megamoe_front_reorder::planned(path, problem, rank, soc)?,
            dispatch: PlannedStage::new(&Dispatch, problem, rank, soc)?,
            gmm1: PlannedStage::new(&Gmm1::default(), problem, rank, soc)?,
            swiglu: PlannedStage::new(&swiglu, problem, rank, soc)?,
            gmm2: PlannedStage::new(&Gmm2::default(), problem, rank, soc)?,
            combine,
            unpermute: PlannedStage::new(&Unpermute, problem, rank, soc)?,
        })
    }

    /// `(position, name of the stage, physical cores, bytes of workspace)` of each, in order.
    #[must_use]
    pub fn list(&self) -> Vec<(StageKind, &'static str, u32, u64)> {
        fn entry<S: Slot>(stage: &PlannedStage<S>) -> (StageKind, &'static str, u32, u64) {
            let (blocks, bytes) = (stage.num_blocks(), stage.workspace_bytes());
            (S::KIND, stage.name(), blocks, bytes)
        }
        vec![
            entry(&self.front),
            entry(&self.dispatch),
            entry(&self.gmm1),
            entry(&self.swiglu),
            entry(&self.gmm2),
            entry(&self.combine),
            entry(&self.unpermute),
        ]
    }
}

/// Bytes that fill a rank's buffers before its first launch: whoever reads what nobody wrote sees it.
const POISON: u8 = 0xa5;

macro_rules! buffers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty,)*) => {
        /// A rank's global memory: inputs, what passes between stages, output.
        #[derive(Debug)]
        struct Buffers {
            $($(#[$doc])* $name: Box<dyn Buffer>,)*
        }

        impl Buffers {
            $(fn $name(&self) -> Gm<$ty> {
                view(self.$name.as_ref())
            })*
        }
    };
}

buffers! {
    x: u16,
    topk_ids: i32,
    probs: f32,
    weight1: i8,
    scale1: u64,
    weight2: i8,
    scale2: u64,
    row_of_route: i32,
    pre_sum: i32,
    cumsum: i32,
    expert_offset: i32,
    expert_token_nums: i32,
    kept_end: i32,
    workspace: u8,
    rows: i8,
    row_scale: f32,
    dropped: i32,
    h: half::f16,
    q: i8,
    q_scale: f32,
    h2: half::f16,
    out: u16,
    bases: u64,
    map: u8,
}

impl Buffers {
    fn new(
        problem: &Problem,
        rank: u32,
        device: &dyn Device,
        inputs: &RankInputs,
        workspace_bytes: u64,
    ) -> Result<Self, DeviceError> {
        let (hidden, gate_up) = (u64::from(problem.hidden()), u64::from(problem.gate_up()));
        let rows = u64::from(problem.max_output_size());
        let routes = u64::from(problem.num_routes(rank));
        let experts = u64::from(problem.experts_per_rank());
        let ranks = u64::from(problem.num_ranks());
        let small = |bytes: u64| {
            let mut buffer = device.alloc(bytes)?;
            buffer.write(0, &vec![POISON; bytes as usize])?;
            Ok::<_, DeviceError>(buffer)
        };
        let weights = &inputs.weights;
        Ok(Self {
            x: upload(device, &inputs.x)?,
            topk_ids: upload(device, &inputs.topk_ids)?,
            probs: upload(device, &inputs.probs)?,
            weight1: upload(device, &weights.weight1)?,
            scale1: upload(device, &weights.scale1)?,
            weight2: upload(device, &weights.weight2)?,
            scale2: upload(device, &weights.scale2)?,
            row_of_route: small(4 * routes)?,
            pre_sum: small(4 * ranks * experts)?,
            cumsum: small(4 * ranks * experts)?,
            expert_offset: small(4 * (experts + 1))?,
            expert_token_nums: small(4 * experts)?,
            kept_end: small(4 * u64::from(problem.num_experts()))?,
            workspace: small(workspace_bytes)?,
            rows: device.alloc(rows * hidden)?,
            row_scale: small(4 * rows)?,
            dropped: small(4 * ranks * experts)?,
            h: device.alloc(2 * rows * gate_up)?,
            q: device.alloc(rows * gate_up / 2)?,
            q_scale: small(4 * rows)?,
            h2: device.alloc(2 * rows * hidden)?,
            out: small(2 * u64::from(problem.num_tokens(rank)) * hidden)?,
            bases: small(8 * ranks)?,
            map: small(size_of::<WindowMap>() as u64)?,
        })
    }

    fn metadata(&self) -> RouteMetadata {
        RouteMetadata {
            pre_sum: self.pre_sum(),
            cumsum: self.cumsum(),
            expert_offset: self.expert_offset(),
            expert_token_nums: self.expert_token_nums(),
            kept_end: self.kept_end(),
        }
    }
}

/// What stages left behind, for tests and tools: as much as the counts say is there.
#[derive(Clone, Debug)]
pub struct Intermediates {
    /// `[num_routes]`.
    pub row_of_route: Vec<i32>,
    /// What FrontReorder found.
    pub metadata: moe_core::exchange::HostMetadata,
    /// `[num_rows, hidden]`.
    pub rows: Vec<i8>,
    /// `[num_rows]`.
    pub row_scale: Vec<f32>,
    /// `[num_ranks, experts_per_rank]`.
    pub dropped: Vec<i32>,
}

/// A rank's layer on a device.
#[derive(Debug)]
pub struct KernelLayer<'a> {
    problem: &'a Problem,
    rank: u32,
    device: &'a dyn Device,
    stages: LayerStages,
    buffers: Buffers,
}

impl<'a> KernelLayer<'a> {
    /// Allocates and fills the rank's buffers.
    ///
    /// # Errors
    /// [`LayerError::Device`] when there is not enough memory.
    pub fn new(
        problem: &'a Problem,
        rank: u32,
        device: &'a dyn Device,
        inputs: &RankInputs,
        stages: LayerStages,
    ) -> Result<Self, LayerError> {
        let workspace = stages.list().iter().map(|(_, _, _, bytes)| *bytes).max();
        let buffers = Buffers::new(problem, rank, device, inputs, workspace.unwrap_or(0))?;
        Ok(Self {
            problem,
            rank,
            device,
            stages,
            buffers,
        })
    }

    /// One launch of the layer. All ranks of the window's world do so.
    ///
    /// # Errors
    /// [`LayerError`] when a kernel or a peer fails.
    pub fn launch(&mut self, window: &mut Window) -> Result<RankOutput, LayerError> {
        let launch = window.begin()?;
        self.buffers
            .bases
            .write(0, bytemuck::cast_slice(&launch.window().addresses()))?;
        let map = launch.map(self.buffers.bases());
        self.buffers.map.write(0, bytemuck::bytes_of(&map))?;
        let stage_times = self.run_stages()?;
        let len = self.problem.num_tokens(self.rank) as usize * self.problem.hidden() as usize;
        Ok(RankOutput {
            out: download(self.buffers.out.as_ref(), len)?,
            stage_times,
        })
    }

    fn run_stages(&self) -> Result<Vec<(StageKind, std::time::Duration)>, DeviceError> {
        let (b, stages) = (&self.buffers, &self.stages);
        let mut times = Vec::new();
        let front = FrontReorderIo {
            x: b.x(),
            topk_ids: b.topk_ids(),
            row_of_route: b.row_of_route(),
            metadata: b.metadata(),
            window: b.map(),
            workspace: b.workspace(),
        };
        self.run(&stages.front, &front, &mut times)?;
        let dispatch = DispatchIo {
            metadata: b.metadata(),
            window: b.map(),
            rows: b.rows(),
            row_scale: b.row_scale(),
            dropped: b.dropped(),
        };
        self.run(&stages.dispatch, &dispatch, &mut times)?;
        let gmm = |a, weight, channel_scale, c| GmmIo {
            expert_offset: b.expert_offset(),
            a,
            weight,
            channel_scale,
            c,
        };
        self.run(
            &stages.gmm1,
            &gmm(b.rows(), b.weight1(), b.scale1(), b.h()),
            &mut times,
        )?;
        let swiglu = SwigluIo {
            expert_offset: b.expert_offset(),
            h: b.h(),
            row_scale: b.row_scale(),
            q: b.q(),
            q_scale: b.q_scale(),
        };
        self.run(&stages.swiglu, &swiglu, &mut times)?;
        self.run(
            &stages.gmm2,
            &gmm(b.q(), b.weight2(), b.scale2(), b.h2()),
            &mut times,
        )?;
        let combine = CombineIo {
            metadata: b.metadata(),
            window: b.map(),
            h2: b.h2(),
            row_scale: b.q_scale(),
        };
        self.run(&stages.combine, &combine, &mut times)?;
        let unpermute = UnpermuteIo {
            topk_ids: b.topk_ids(),
            row_of_route: b.row_of_route(),
            probs: b.probs(),
            kept_end: b.kept_end(),
            window: b.map(),
            out: b.out(),
        };
        self.run(&stages.unpermute, &unpermute, &mut times)?;
        Ok(times)
    }

    fn run<S: Slot>(
        &self,
        stage: &PlannedStage<S>,
        io: &S::Io,
        times: &mut Vec<(StageKind, std::time::Duration)>,
    ) -> Result<(), DeviceError> {
        let start = Instant::now();
        // SAFETY: the buffers have the sizes of the problem and rank that the stage was planned for, and
        // live as long as `self`.
        unsafe { stage.run(self.device, io) }?;
        times.push((S::KIND, start.elapsed()));
        Ok(())
    }

    /// What the last launch's stages left behind.
    ///
    /// # Errors
    /// As [`Buffer::read`].
    pub fn intermediates(&self) -> Result<Intermediates, DeviceError> {
        fn read<T: Pod + Zeroable>(buffer: &dyn Buffer, len: u32) -> Result<Vec<T>, DeviceError> {
            download(buffer, len as usize)
        }
        let (b, problem) = (&self.buffers, self.problem);
        let experts = problem.experts_per_rank();
        let pairs = problem.num_ranks() * experts;
        let expert_offset: Vec<i32> = read(b.expert_offset.as_ref(), experts + 1)?;
        let num_rows = expert_offset.last().map_or(0, |&rows| rows.cast_unsigned());
        Ok(Intermediates {
            row_of_route: read(b.row_of_route.as_ref(), problem.num_routes(self.rank))?,
            metadata: moe_core::exchange::HostMetadata {
                pre_sum: read(b.pre_sum.as_ref(), pairs)?,
                cumsum: read(b.cumsum.as_ref(), pairs)?,
                expert_offset,
                expert_token_nums: read(b.expert_token_nums.as_ref(), experts)?,
                kept_end: read(b.kept_end.as_ref(), problem.num_experts())?,
            },
            rows: read(b.rows.as_ref(), num_rows * problem.hidden())?,
            row_scale: read(b.row_scale.as_ref(), num_rows)?,
            dropped: read(b.dropped.as_ref(), pairs)?,
        })
    }
}
