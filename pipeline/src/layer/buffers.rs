//! A rank's global memory: inputs, what passes between stages, output.

use std::sync::Arc;

use bytemuck::Pod;
use megamoe_device::{Buffer, Device, DeviceError, download, upload, view};
use megamoe_window::{Launch, WindowMap};
use moe_core::exchange::HostMetadata;
use moe_core::slot::{
    CombineIo, DispatchIo, FrontReorderIo, GmmIo, RouteMetadata, SwigluIo, UnpermuteIo,
};
use moe_core::{Gm, Problem, RankWeights};

/// Bytes that fill a rank's buffers before its first launch: whoever reads what nobody wrote sees it.
const POISON: u8 = 0xa5;

macro_rules! buffers {
    ($($(#[$doc:meta])* $name:ident: $ty:ty,)*) => {
        #[derive(Debug)]
        pub(super) struct Buffers {
            $($(#[$doc])* pub(super) $name: Box<dyn Buffer>,)*
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

/// A buffer that holds what a rank was not told to compute.
pub(super) fn poisoned(device: &dyn Device, bytes: u64) -> Result<Box<dyn Buffer>, DeviceError> {
    let mut buffer = device.alloc(bytes)?;
    buffer.poison(POISON)?;
    Ok(buffer)
}

/// A part of a rank's weights, for a device that can use host memory as it lies.
struct Part(Arc<RankWeights>, fn(&RankWeights) -> &[u8]);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        (self.1)(&self.0)
    }
}

impl Buffers {
    /// Buffers for `rank` with as many tokens as the problem says, or fewer.
    pub(super) fn new(
        problem: &Problem,
        rank: u32,
        device: &dyn Device,
        weights: &Arc<RankWeights>,
    ) -> Result<Self, DeviceError> {
        let (hidden, gate_up) = (u64::from(problem.hidden()), u64::from(problem.gate_up()));
        let rows = u64::from(problem.max_output_size());
        let tokens = u64::from(problem.num_tokens(rank));
        let routes = u64::from(problem.num_routes(rank));
        let experts = u64::from(problem.experts_per_rank());
        let ranks = u64::from(problem.num_ranks());
        let small = |bytes: u64| poisoned(device, bytes);
        let import =
            |part: fn(&RankWeights) -> &[u8]| device.import(Arc::new(Part(weights.clone(), part)));
        Ok(Self {
            x: small(2 * tokens * hidden)?,
            topk_ids: small(4 * routes)?,
            probs: small(4 * routes)?,
            weight1: import(|weights| bytemuck::cast_slice(&weights.weight1))?,
            scale1: upload(device, &weights.scale1)?,
            weight2: import(|weights| bytemuck::cast_slice(&weights.weight2))?,
            scale2: upload(device, &weights.scale2)?,
            row_of_route: small(4 * routes)?,
            pre_sum: small(4 * ranks * experts)?,
            cumsum: small(4 * ranks * experts)?,
            expert_offset: small(4 * (experts + 1))?,
            expert_token_nums: small(4 * experts)?,
            kept_end: small(4 * u64::from(problem.num_experts()))?,
            workspace: device.alloc(0)?,
            rows: device.alloc(rows * hidden)?,
            row_scale: small(4 * rows)?,
            dropped: small(4 * ranks * experts)?,
            h: device.alloc(2 * rows * gate_up)?,
            q: device.alloc(rows * gate_up / 2)?,
            q_scale: small(4 * rows)?,
            h2: device.alloc(2 * rows * hidden)?,
            out: small(2 * tokens * hidden)?,
            bases: small(8 * ranks)?,
            map: small(size_of::<WindowMap>() as u64)?,
        })
    }

    /// Points the map at the windows of a launch.
    pub(super) fn write_map(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let bases = launch.window().addresses();
        self.bases.write(0, bytemuck::cast_slice(&bases))?;
        let map = launch.map(self.bases());
        self.map.write(0, bytemuck::bytes_of(&map))
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

    pub(super) fn front_io(&self) -> FrontReorderIo {
        FrontReorderIo {
            x: self.x(),
            topk_ids: self.topk_ids(),
            row_of_route: self.row_of_route(),
            metadata: self.metadata(),
            window: self.map(),
            workspace: self.workspace(),
        }
    }

    pub(super) fn dispatch_io(&self) -> DispatchIo {
        DispatchIo {
            metadata: self.metadata(),
            window: self.map(),
            rows: self.rows(),
            row_scale: self.row_scale(),
            dropped: self.dropped(),
        }
    }

    pub(super) fn gmm1_io(&self) -> GmmIo {
        GmmIo {
            expert_offset: self.expert_offset(),
            a: self.rows(),
            weight: self.weight1(),
            channel_scale: self.scale1(),
            c: self.h(),
        }
    }

    pub(super) fn swiglu_io(&self) -> SwigluIo {
        SwigluIo {
            expert_offset: self.expert_offset(),
            h: self.h(),
            row_scale: self.row_scale(),
            q: self.q(),
            q_scale: self.q_scale(),
        }
    }

    pub(super) fn gmm2_io(&self) -> GmmIo {
        GmmIo {
            expert_offset: self.expert_offset(),
            a: self.q(),
            weight: self.weight2(),
            channel_scale: self.scale2(),
            c: self.h2(),
        }
    }

    pub(super) fn combine_io(&self) -> CombineIo {
        CombineIo {
            metadata: self.metadata(),
            window: self.map(),
            h2: self.h2(),
            row_scale: self.q_scale(),
        }
    }

    pub(super) fn unpermute_io(&self) -> UnpermuteIo {
        UnpermuteIo {
            topk_ids: self.topk_ids(),
            row_of_route: self.row_of_route(),
            probs: self.probs(),
            kept_end: self.kept_end(),
            window: self.map(),
            out: self.out(),
        }
    }

    /// What the last launch's stages left behind; `problem` has the launch's number of tokens.
    pub(super) fn intermediates(
        &self,
        problem: &Problem,
        rank: u32,
    ) -> Result<Intermediates, DeviceError> {
        fn read<T: Pod>(buffer: &dyn Buffer, len: u32) -> Result<Vec<T>, DeviceError> {
            download(buffer, len as usize)
        }
        let experts = problem.experts_per_rank();
        let pairs = problem.num_ranks() * experts;
        let expert_offset: Vec<i32> = read(self.expert_offset.as_ref(), experts + 1)?;
        let num_rows = expert_offset.last().map_or(0, |&rows| rows.cast_unsigned());
        Ok(Intermediates {
            row_of_route: read(self.row_of_route.as_ref(), problem.num_routes(rank))?,
            metadata: HostMetadata {
                pre_sum: read(self.pre_sum.as_ref(), pairs)?,
                cumsum: read(self.cumsum.as_ref(), pairs)?,
                expert_offset,
                expert_token_nums: read(self.expert_token_nums.as_ref(), experts)?,
                kept_end: read(self.kept_end.as_ref(), problem.num_experts())?,
            },
            rows: read(self.rows.as_ref(), num_rows * problem.hidden())?,
            row_scale: read(self.row_scale.as_ref(), num_rows)?,
            dropped: read(self.dropped.as_ref(), pairs)?,
        })
    }
}

/// What stages left behind, for tests and tools: as much as the counts say is there.
#[derive(Clone, Debug)]
pub struct Intermediates {
    /// `[num_routes]`.
    pub row_of_route: Vec<i32>,
    /// What FrontReorder found.
    pub metadata: HostMetadata,
    /// `[num_rows, hidden]`.
    pub rows: Vec<i8>,
    /// `[num_rows]`.
    pub row_scale: Vec<f32>,
    /// `[num_ranks, experts_per_rank]`.
    pub dropped: Vec<i32>,
}
