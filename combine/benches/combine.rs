//! Both ways to return rows, to a rank's own window, at the published sizes. `cargo bench -p megamoe-combine`

use half::f16;
use megamoe_bench::rig::{Rig, Work, report};
use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{Device, PlannedStage};
use megamoe_window::{WindowLayout, World};
use moe_core::StageKind;
use moe_core::slot::{Combine, CombineIo};

fn measure(mut rig: Rig, stage: &PlannedStage<Combine>) -> (std::time::Duration, Work) {
    let world = World::new(WindowLayout::new(&rig.problem).expect("a small window"));
    let work = rig.traffic(StageKind::Combine);
    let (rows, hidden) = (rig.num_rows(), u64::from(rig.problem.hidden()));
    let metadata = rig.put_metadata();
    let (h2, row_scale) = (
        rig.fill(rows * hidden, f16::from_f32(1.5)),
        rig.fill(rows, 0.5f32),
    );
    let rig = std::sync::Mutex::new(rig);
    let times = world.run_threads(|window| {
        let mut rig = rig.lock().expect("one rank");
        let launch = window.begin()?;
        let bases = rig.put(&launch.window().addresses());
        let io = CombineIo {
            metadata,
            window: rig.put(&[launch.map(bases)]).cast(),
            h2,
            row_scale,
        };
        // SAFETY: every view has the size that the problem and the routes say.
        Ok(unsafe { rig.time(stage, &io) })
    });
    (times.expect("one rank")[0], work)
}

fn main() {
    report("combine-large", |tokens| {
        let rig = Rig::new(tokens);
        let stage = PlannedStage::new(&DirectLarge, &rig.problem, 0, rig.device.soc());
        measure(rig, &stage.expect("the published sizes"))
    });
    report("combine-small", |tokens| {
        let rig = Rig::new(tokens);
        let stage = PlannedStage::new(&DirectSmall, &rig.problem, 0, rig.device.soc());
        measure(rig, &stage.expect("the published sizes"))
    });
}
