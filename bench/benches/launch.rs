//! What it costs to launch and join kernels that do nothing.
//!
//! `cargo bench -p megamoe-bench --bench launch`

use std::sync::Arc;

use megamoe_bench::best_time;
use megamoe_device::{Device, Executor, ExecutorOptions, VirtualDevice, upload};
use megamoe_device_examples::{BARRIERS, EMPTY};
use moe_core::Soc;

fn main() {
    for ranks in [1, 8] {
        let options = ExecutorOptions {
            num_devices: ranks as usize,
            ..ExecutorOptions::default()
        };
        let executor = Arc::new(Executor::new(options).expect("threads can be started"));
        let soc = Soc::named("Ascend910B1").expect("a known SoC");
        let devices: Vec<VirtualDevice> = (0..ranks)
            .map(|rank| VirtualDevice::new(soc.clone(), rank, Arc::clone(&executor)))
            .collect();
        let words: Vec<_> = devices
            .iter()
            .map(|device| upload(device, &[0i32; 32]).expect("memory"))
            .collect();
        for (name, kernel) in [("empty kernel", EMPTY), ("10 x 3 barriers", BARRIERS)] {
            let time = best_time(20, 5, || {
                for (device, words) in devices.iter().zip(&words) {
                    // SAFETY: both kernels take 32 words at most, which live until the launch has ended.
                    unsafe { device.launch(&kernel, 24, words.address()) }.expect("24 cores");
                }
                devices
                    .iter()
                    .for_each(|device| device.synchronize().expect("the kernel ends"));
            });
            println!(
                "{ranks} rank(s) x 72 cores, {name}: {:.3} ms",
                time.as_secs_f64() * 1e3
            );
        }
    }
}
