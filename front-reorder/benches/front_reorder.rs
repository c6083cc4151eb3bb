//! The three ways to sort and pack, alone, at the published sizes. `cargo bench -p megamoe-front-reorder`

use megamoe_bench::rig::{Rig, report};
use megamoe_device::Device;
use megamoe_front_reorder::{Path, planned};
use megamoe_window::{WindowLayout, World};
use moe_core::StageKind;
use moe_core::slot::FrontReorderIo;

fn main() {
    for path in [Path::FullLoad, Path::OneCore, Path::MultiCore] {
        report(&format!("{path:?}"), |tokens| {
            let mut rig = Rig::new(tokens);
            let world = World::new(WindowLayout::new(&rig.problem).expect("a small window"));
            let stage = planned(path, &rig.problem, 0, rig.device.soc());
            let stage = stage.expect("the published sizes");
            let work = rig.traffic(StageKind::FrontReorder);
            let (routes, hidden) = (rig.num_rows(), u64::from(rig.problem.hidden()));
            let ids = rig.topk_ids.clone();
            let x = rig.fill(u64::from(tokens) * hidden, 0x3f80u16);
            let (topk_ids, row_of_route) = (rig.put(&ids), rig.fill(routes, 0i32));
            let workspace = rig.fill(stage.workspace_bytes(), 0u8);
            let metadata = rig.put_metadata();
            let rig = std::sync::Mutex::new(rig);
            let times = world.run_threads(|window| {
                let mut rig = rig.lock().expect("one rank");
                let launch = window.begin()?;
                let bases = rig.put(&launch.window().addresses());
                let io = FrontReorderIo {
                    x,
                    topk_ids,
                    row_of_route,
                    metadata,
                    window: rig.put(&[launch.map(bases)]).cast(),
                    workspace,
                };
                // SAFETY: every view has the size that the problem and the routes say.
                Ok(unsafe { rig.time(&stage, &io) })
            });
            (times.expect("one rank")[0], work)
        });
    }
}
