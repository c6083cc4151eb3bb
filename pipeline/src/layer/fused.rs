//! A launch as one kernel.

use bytemuck::{Pod, bytes_of};
use megamoe_combine::DirectLarge;
use megamoe_device::{Buffer, Device, DeviceError, Kernel, upload, view};
use megamoe_dispatch::Dispatch;
use megamoe_front_reorder::FullLoad;
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::Activation;
use megamoe_unpermute::Unpermute;
use moe_core::{FloatType, KernelSource, Problem, Stage, StageKind};

use super::LayerError;
use super::buffers::{Buffers, poisoned};
use super::fused_args::{FusedTiling, HANDOVER_COUNTERS, HandoverIo, LogIo};
use super::log::{self, CoreTimeline};
use super::stages::LayerPlan;
use crate::schedule::tiling::ScheduleTiling;

/// A fused kernel and the stage classes that it was built from: [`crate::fused_kernel!`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct FusedKernel {
    kernel: Kernel,
    replaced: &'static [(StageKind, KernelSource)],
}

/// The fused kernel that this crate's build script built under a name, with
/// [`bisheng_build::FusedKernel`](../bisheng_build/struct.FusedKernel.html). The crate depends on `moe-core`.
#[macro_export]
macro_rules! fused_kernel {
    ($name:ident) => {{
        $crate::layer::FusedKernel::new(
            $crate::layer::kernel!($name, Mix),
            include!(concat!(
                env!("OUT_DIR"),
                "/fused/",
                stringify!($name),
                ".rs"
            )),
        )
    }};
}

impl FusedKernel {
    /// A kernel with these classes instead of the standard ones.
    #[must_use]
    pub const fn new(kernel: Kernel, replaced: &'static [(StageKind, KernelSource)]) -> Self {
        Self { kernel, replaced }
    }

    /// The kernel of the standard stages.
    #[must_use]
    pub fn standard(activation: Activation) -> Self {
        match activation {
            Activation::Silu => crate::fused_kernel!(megamoe_fused_silu),
            Activation::Gelu => crate::fused_kernel!(megamoe_fused_gelu),
        }
    }

    /// The kernel itself.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The class that it has in a position.
    #[must_use]
    pub fn source(&self, kind: StageKind) -> KernelSource {
        let replaced = self.replaced.iter().find(|(replaced, _)| *replaced == kind);
        replaced.map_or_else(|| standard_source(kind), |(_, source)| *source)
    }

    /// A stage that was planned for another class would be read wrongly.
    pub(super) fn check(&self, plan: &LayerPlan) -> Result<(), LayerError> {
        for stage in plan.list() {
            let built = self.source(stage.kind);
            if stage.source != built {
                return Err(LayerError::OtherClass {
                    kernel: self.kernel.name,
                    kind: stage.kind,
                    built: built.class,
                    stage: stage.name,
                    class: stage.source.class,
                });
            }
        }
        Ok(())
    }
}

fn standard_source(kind: StageKind) -> KernelSource {
    match kind {
        StageKind::FrontReorder => FullLoad.kernel_source(),
        StageKind::Dispatch => Dispatch.kernel_source(),
        StageKind::Gmm1 => Gmm1::default().kernel_source(),
        StageKind::Swiglu => Swiglu::default().kernel_source(),
        StageKind::Gmm2 => Gmm2::default().kernel_source(),
        StageKind::Combine => DirectLarge.kernel_source(),
        StageKind::Unpermute => Unpermute.kernel_source(),
    }
}

/// Bytes of a hand-over counter: a line of its own.
const COUNTER_BYTES: u64 = 64;

/// What a rank's fused launches need besides its buffers.
#[derive(Debug)]
pub(super) struct FusedLayer {
    kernel: FusedKernel,
    schedule: ScheduleTiling,
    /// Two tables of counters, used in turn.
    counters: [Box<dyn Buffer>; 2],
    turn: usize,
    /// The tables are as a launch that failed left them.
    is_dirty: bool,
    log: Box<dyn Buffer>,
    log_layout: log::Layout,
}

impl FusedLayer {
    pub(super) fn new(
        problem: &Problem,
        device: &dyn Device,
        kernel: FusedKernel,
        schedule: ScheduleTiling,
    ) -> Result<Self, DeviceError> {
        let log_layout = log::Layout::new(problem, &schedule);
        let experts = u64::from(problem.experts_per_rank());
        let bytes = u64::from(HANDOVER_COUNTERS) * experts * COUNTER_BYTES;
        Ok(Self {
            kernel,
            schedule,
            counters: [device.alloc(bytes)?, device.alloc(bytes)?],
            turn: 0,
            is_dirty: true,
            log: poisoned(device, log_layout.bytes())?,
            log_layout,
        })
    }

    pub(super) fn kernel(&self) -> &FusedKernel {
        &self.kernel
    }

    /// One launch; what its cores did.
    pub(super) fn run(
        &mut self,
        device: &dyn Device,
        problem: &Problem,
        rank: u32,
        plan: &LayerPlan,
        buffers: &Buffers,
    ) -> Result<Vec<CoreTimeline>, LayerError> {
        self.kernel.check(plan)?;
        if self.is_dirty {
            self.clear_counters()?;
        }
        self.is_dirty = true;
        let args = upload(device, &self.arguments(problem, rank, plan, buffers))?;
        // SAFETY: the kernel takes these arguments, whose buffers have the problem's sizes; they live until the
        // launch has ended.
        unsafe { device.launch(&self.kernel.kernel, self.schedule.num_aic, args.address()) }?;
        device.synchronize()?;
        self.is_dirty = false;
        self.turn = 1 - self.turn;
        Ok(self.log_layout.read(self.log.as_ref())?)
    }

    fn clear_counters(&mut self) -> Result<(), DeviceError> {
        for table in &mut self.counters {
            let zeros = vec![0; table.len() as usize];
            table.write(0, &zeros)?;
        }
        Ok(())
    }

    /// `FusedArgs` in C++.
    fn arguments(
        &self,
        problem: &Problem,
        rank: u32,
        plan: &LayerPlan,
        buffers: &Buffers,
    ) -> Vec<u8> {
        let is_bf16 = |float| u32::from(float == FloatType::Bf16);
        let tiling = FusedTiling {
            schedule: self.schedule,
            handover: HandoverIo {
                counters: view(self.counters[self.turn].as_ref()),
                next_counters: view(self.counters[1 - self.turn].as_ref()),
            },
            log: LogIo {
                cores: view(self.log.as_ref()),
                bytes_per_core: self.log_layout.bytes_per_core(),
                max_spans: self.log_layout.max_spans(),
                num_ranks: problem.num_ranks(),
            },
            num_tokens: problem.num_tokens(rank),
            input_is_bf16: is_bf16(problem.input_type()),
            output_is_bf16: is_bf16(problem.output_type()),
            reserved: 0,
        };
        [
            pod(&tiling),
            plan.front.arguments(&buffers.front_io()),
            plan.dispatch.arguments(&buffers.dispatch_io()),
            plan.gmm1.arguments(&buffers.gmm1_io()),
            plan.swiglu.arguments(&buffers.swiglu_io()),
            plan.gmm2.arguments(&buffers.gmm2_io()),
            plan.combine.arguments(&buffers.combine_io()),
            plan.unpermute.arguments(&buffers.unpermute_io()),
        ]
        .concat()
    }
}

fn pod(value: &impl Pod) -> Vec<u8> {
    bytes_of(value).to_vec()
}
