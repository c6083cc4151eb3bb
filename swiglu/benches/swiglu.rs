//! The activation alone, at the published sizes. `cargo bench -p megamoe-swiglu`

use half::f16;
use megamoe_bench::rig::{Rig, report};
use megamoe_device::{Device, PlannedStage};
use megamoe_swiglu::Swiglu;
use moe_core::StageKind;
use moe_core::slot::SwigluIo;

fn main() {
    for variant in Swiglu::all() {
        report(&format!("{:?}", variant.options), |tokens| {
            let mut rig = Rig::new(tokens);
            let stage = PlannedStage::new(&variant, &rig.problem, 0, rig.device.soc());
            let (rows, width) = (rig.num_rows(), u64::from(rig.problem.intermediate()));
            let io = SwigluIo {
                expert_offset: rig.put_metadata().expert_offset,
                h: rig.fill(rows * 2 * width, f16::from_f32(1.5)),
                row_scale: rig.fill(rows, 0.5f32),
                q: rig.fill(rows * width, 0i8),
                q_scale: rig.fill(rows, 0f32),
            };
            // SAFETY: every view has the size that the problem and the routes say.
            let time = unsafe { rig.time(&stage.expect("the published sizes"), &io) };
            (time, rig.traffic(StageKind::Swiglu))
        });
    }
}
