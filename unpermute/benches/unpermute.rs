//! Unpermute alone, from a rank's own window, at the published sizes. `cargo bench -p megamoe-unpermute`

use megamoe_bench::rig::{Rig, report};
use megamoe_device::{Device, PlannedStage};
use megamoe_unpermute::Unpermute;
use megamoe_window::{Signal, WindowLayout, World};
use moe_core::StageKind;
use moe_core::slot::UnpermuteIo;

fn main() {
    report("unpermute", |tokens| {
        let mut rig = Rig::new(tokens);
        let world = World::new(WindowLayout::new(&rig.problem).expect("a small window"));
        let stage = PlannedStage::new(&Unpermute, &rig.problem, 0, rig.device.soc());
        let stage = stage.expect("the published sizes");
        let work = rig.traffic(StageKind::Unpermute);
        let (routes, hidden) = (rig.num_rows(), u64::from(rig.problem.hidden()));
        // Any numbering reads every row once; this one keeps a token's rows apart, as sorting does.
        let stride = i32::try_from(tokens).unwrap_or(i32::MAX);
        let rows: Vec<i32> = (0..tokens as i32 * 8)
            .map(|r| r % 8 * stride + r / 8)
            .collect();
        let ids = rig.topk_ids.clone();
        let (topk_ids, row_of_route) = (rig.put(&ids), rig.put(&rows));
        let kept_end = rig.fill(16, i32::MAX);
        let (probs, out) = (
            rig.fill(routes, 0.125f32),
            rig.fill(u64::from(tokens) * hidden, 0u16),
        );
        let rig = std::sync::Mutex::new(rig);
        let times = world.run_threads(|window| {
            let mut rig = rig.lock().expect("one rank");
            let launch = window.begin()?;
            for expert in 0..16 {
                launch.notify_set(0, Signal::Returned(expert), launch.epoch())?;
            }
            let bases = rig.put(&launch.window().addresses());
            let io = UnpermuteIo {
                topk_ids,
                row_of_route,
                probs,
                kept_end,
                window: rig.put(&[launch.map(bases)]).cast(),
                out,
            };
            // SAFETY: every view has the size that the problem and the routes say.
            Ok(unsafe { rig.time(&stage, &io) })
        });
        (times.expect("one rank")[0], work)
    });
}
