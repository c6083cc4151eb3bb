//! Both matmuls alone, at the published sizes. `cargo bench -p megamoe-gmm`

use std::time::Duration;

use half::f16;
use megamoe_bench::rig::{Rig, Work, report};
use megamoe_device::{Device, PlannedStage};
use megamoe_gmm::{Gmm1, Gmm2};
use moe_core::Slot;
use moe_core::slot::GmmIo;
use moe_core::weights::packed_bytes;

fn measure<S: Slot<Io = GmmIo>>(
    mut rig: Rig,
    (k, n): (u64, u64),
    stage: &PlannedStage<S>,
) -> (Duration, Work) {
    let (rows, experts) = (rig.num_rows(), u64::from(rig.problem.experts_per_rank()));
    let io = GmmIo {
        expert_offset: rig.put_metadata().expert_offset,
        a: rig.fill(rows * k, 3i8),
        weight: rig.weights(experts * packed_bytes(k, n), 0xfe),
        channel_scale: rig.fill(experts * n, u64::from(1e-3f32.to_bits())),
        c: rig.fill(rows * n, f16::ZERO),
    };
    // SAFETY: every view has the size that the problem and the routes say.
    let time = unsafe { rig.time(stage, &io) };
    (time, Work::Int8Operations(2.0 * (rows * k * n) as f64))
}

fn main() {
    report("gmm1", |tokens| {
        let rig = Rig::new(tokens);
        let sizes = (rig.problem.hidden().into(), rig.problem.gate_up().into());
        let stage = PlannedStage::new(&Gmm1::default(), &rig.problem, 0, rig.device.soc());
        measure(rig, sizes, &stage.expect("the published sizes"))
    });
    report("gmm2", |tokens| {
        let rig = Rig::new(tokens);
        let sizes = (
            rig.problem.intermediate().into(),
            rig.problem.hidden().into(),
        );
        let stage = PlannedStage::new(&Gmm2::default(), &rig.problem, 0, rig.device.soc());
        measure(rig, sizes, &stage.expect("the published sizes"))
    });
}
