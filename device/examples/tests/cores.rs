//! Cores: roles, synchronisation, faults, and what a launch costs.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{device, device_with};
use megamoe_device::{
    Device, DeviceError, Executor, ExecutorOptions, VirtualDevice, download, upload,
};
use megamoe_device_examples::{
    BARRIERS, CROSS_FLAGS, DEADLOCK, EMPTY, LEFT_FLAG, MISALIGNED, ORDER, OUT_OF_BOUNDS,
    UNSET_FLAG, WHO, run,
};
use moe_core::Soc;

fn launch(
    device: &dyn Device,
    kernel: &megamoe_device::Kernel,
    blocks: u32,
) -> (Vec<i32>, Result<(), DeviceError>) {
    let words = upload(device, &[0i32; 256]).unwrap();
    // SAFETY: these kernels take up to 256 words of global memory.
    let result = unsafe { device.launch(kernel, blocks, words.address()) };
    let result = result.and_then(|()| device.synchronize());
    (download(words.as_ref(), 256).unwrap(), result)
}

fn seeded(seed: u64) -> VirtualDevice {
    device_with(
        "Ascend910B1",
        ExecutorOptions {
            seed: Some(seed),
            ..Default::default()
        },
    )
}

#[test]
fn every_core_runs_once_and_knows_who_it_is() {
    let (words, result) = launch(&device(), &WHO, 24);
    result.unwrap();
    for block in 0..24 {
        assert_eq!(
            words[3 * block..3 * block + 3],
            [1024, 200, 201],
            "block {block}"
        );
    }
    assert!(words[72..].iter().all(|&word| word == 0));
}

#[test]
fn cross_core_flags_alternate() {
    let want = (0..20).fold(0i32, |counter, round| {
        counter.wrapping_mul(3).wrapping_add(1).wrapping_add(round)
    });
    for seed in 0..50 {
        let (words, result) = launch(&seeded(seed), &CROSS_FLAGS, 3);
        result.unwrap();
        assert_eq!(words[..4], [want, want, want, 0], "seed {seed}");
    }
}

#[test]
fn nobody_passes_a_barrier_early() {
    for seed in 0..50 {
        let (words, result) = launch(&seeded(seed), &BARRIERS, 5);
        result.unwrap();
        assert_eq!((words[0], words[16]), (150, 0), "seed {seed}");
    }
    let (words, result) = launch(&device(), &BARRIERS, 24);
    result.unwrap();
    assert_eq!((words[0], words[16]), (720, 0));
}

#[test]
fn a_deadlock_is_reported_at_once_with_every_core() {
    let start = Instant::now();
    let (_, result) = launch(&device(), &DEADLOCK, 2);
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    let Err(DeviceError::Deadlock { report }) = result else {
        panic!("{result:?}");
    };
    for core in ["AIV 0.0", "AIV 0.1", "AIV 1.0", "AIV 1.1"] {
        assert!(
            report.contains(&format!("rank 0 {core} in example_deadlock: TWAIT")),
            "{report}"
        );
    }
    assert!(report.contains("saw 0, wants >= 7"), "{report}");
    assert_eq!(report.trim().lines().count(), 4, "{report}");
}

#[test]
fn a_wait_for_another_process_ends_at_the_deadline() {
    let deadline = Duration::from_millis(100);
    let options = ExecutorOptions {
        has_outside_peers: true,
        deadline,
        ..Default::default()
    };
    let device = device_with("Ascend910B1", options)
        .with_names(|address| Some(format!("a word of rank 3 ({address:#x})")));
    let (_, result) = launch(&device, &DEADLOCK, 1);
    assert!(
        matches!(&result, Err(DeviceError::Deadline { waited, report })
            if *waited == deadline && report.contains("at a word of rank 3 (0x")),
        "{result:?}"
    );
}

#[test]
fn a_wait_ends_when_a_peer_has_failed() {
    let options = ExecutorOptions {
        has_outside_peers: true,
        ..Default::default()
    };
    let device =
        device_with("Ascend910B1", options).with_peer_failure(|| Some("rank 3 is gone".to_owned()));
    let (_, result) = launch(&device, &DEADLOCK, 1);
    assert!(result.unwrap_err().to_string().contains("rank 3 is gone"));
}

#[test]
fn faults_of_a_kernel_are_named() {
    let cases = [
        (
            OUT_OF_BOUNDS,
            "bytes 196480..196736 of Ub are used, which has 196608",
        ),
        (MISALIGNED, "TEXPANDS: address 36 is no multiple of 32"),
        (UNSET_FLAG, "waits for flag MTE2 -> V 3, which was not set"),
        (LEFT_FLAG, "flag V -> MTE3 1 is still set at the end"),
    ];
    let device = device();
    for (kernel, message) in cases {
        let (_, result) = launch(&device, &kernel, 1);
        let error = result.unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains(kernel.name) && error.contains("AIV 0."),
            "{error}"
        );
        // The device goes on to work.
        launch(&device, &WHO, 2).1.unwrap();
    }
}

#[test]
fn more_cores_than_there_are() {
    let device = device();
    for blocks in [0, 25] {
        // SAFETY: an empty kernel takes anything.
        let error = unsafe { run(&device, &EMPTY, blocks, &0u64) }
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!(
                "number of cores is {blocks}, but must be from 1 to 24"
            )),
            "{error}"
        );
    }
}

#[test]
fn a_seed_and_several_workers_contradict() {
    let options = ExecutorOptions {
        seed: Some(1),
        workers: 2,
        ..Default::default()
    };
    assert!(
        Executor::new(options)
            .unwrap_err()
            .to_string()
            .contains("a seed needs 1 worker, got 2")
    );
}

#[test]
fn a_seed_decides_the_schedule() {
    let order = |seed| launch(&seeded(seed), &ORDER, 8).0;
    let orders: Vec<_> = (0..10).map(order).collect();
    for (seed, first) in (0..).zip(&orders) {
        assert_eq!(order(seed), *first, "seed {seed}");
        assert_eq!(first[0], 48);
    }
    let different: std::collections::BTreeSet<_> = orders.iter().collect();
    assert_eq!(
        different.len(),
        orders.len(),
        "every seed explores another order"
    );
}

/// Launches of eight devices on one executor, each 24 matrix and 48 vector cores.
#[test]
fn eight_ranks_of_72_cores_launch_and_join() {
    let executor = Arc::new(
        Executor::new(ExecutorOptions {
            num_devices: 8,
            ..Default::default()
        })
        .unwrap(),
    );
    let soc = Soc::named("Ascend910B1").unwrap();
    let devices: Vec<_> = (0..8)
        .map(|rank| VirtualDevice::new(soc.clone(), rank, Arc::clone(&executor)))
        .collect();
    for _ in 0..10 {
        for device in &devices {
            // SAFETY: an empty kernel takes anything.
            unsafe { device.launch(&EMPTY, 24, 0) }.unwrap();
        }
        for device in &devices {
            device.synchronize().unwrap();
        }
    }
}

/// A core that waits may go on on another thread. What it knows of itself must go with it.
#[test]
fn cores_move_between_workers() {
    let options = ExecutorOptions {
        workers: 4,
        ..ExecutorOptions::default()
    };
    let device = device_with("Ascend910B1", options);
    for _ in 0..200 {
        let (words, result) = launch(&device, &BARRIERS, 24);
        result.unwrap();
        assert_eq!((words[0], words[16]), (720, 0));
        launch(&device, &CROSS_FLAGS, 24).1.unwrap();
    }
}
