//! Dispatch alone, from a rank's own window, at the published sizes. `cargo bench -p megamoe-dispatch`

use megamoe_bench::rig::{Rig, report};
use megamoe_device::{Device, PlannedStage};
use megamoe_dispatch::Dispatch;
use megamoe_window::{Signal, WindowLayout, World};
use moe_core::StageKind;
use moe_core::slot::DispatchIo;

fn main() {
    report("dispatch", |tokens| {
        let mut rig = Rig::new(tokens);
        let world = World::new(WindowLayout::new(&rig.problem).expect("a small window"));
        let stage = PlannedStage::new(&Dispatch, &rig.problem, 0, rig.device.soc());
        let stage = stage.expect("the published sizes");
        let work = rig.traffic(StageKind::Dispatch);
        let (rows, hidden) = (rig.num_rows(), u64::from(rig.problem.hidden()));
        let (metadata, out) = (rig.put_metadata(), rig.fill(rows * hidden, 0i8));
        let (row_scale, dropped) = (rig.fill(rows, 0f32), rig.fill(16, 0i32));
        let rig = std::sync::Mutex::new(rig);
        let times = world.run_threads(|window| {
            let mut rig = rig.lock().expect("one rank");
            let launch = window.begin()?;
            launch.notify_set(0, Signal::RowsReady(0), launch.epoch())?;
            let bases = rig.put(&launch.window().addresses());
            let io = DispatchIo {
                metadata,
                window: rig.put(&[launch.map(bases)]).cast(),
                rows: out,
                row_scale,
                dropped,
            };
            // SAFETY: every view has the size that the problem and the routes say.
            Ok(unsafe { rig.time(&stage, &io) })
        });
        (times.expect("one rank")[0], work)
    });
}
