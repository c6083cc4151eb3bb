//! Checked mode on a corpus of small kernels: no miss, no false alarm.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use megamoe_device::checked::{Check, Verdict};
use megamoe_device::{
    Buffer, Checker, Device, Executor, ExecutorOptions, Kernel, VirtualDevice, upload, view,
};
use megamoe_device_examples::corpus::{right, wrong};
use megamoe_device_examples::{CorpusArgs, run};
use moe_core::{Gm, Soc};

/// Bytes of a rank's window; the first half is its owner's to write.
const WINDOW_BYTES: u64 = 8192;
const RANKS: u32 = 2;

/// Two ranks with windows, on one executor.
struct World {
    checker: Arc<Checker>,
    executor: Arc<Executor>,
    /// Both windows, aligned to lines of 512 bytes.
    _windows: Vec<Aligned>,
    addresses: Vec<u64>,
}

#[repr(align(512))]
#[derive(Clone)]
struct Aligned(#[allow(dead_code, reason = "kernels use it")] [u8; WINDOW_BYTES as usize]);

impl World {
    fn new(seed: u64) -> Self {
        let checker = Checker::new();
        let windows = vec![Aligned([0; WINDOW_BYTES as usize]); RANKS as usize];
        let addresses: Vec<u64> = windows
            .iter()
            .map(|w| std::ptr::from_ref(w) as u64)
            .collect();
        for (rank, &start) in (0..).zip(&addresses) {
            let writer = move |offset| {
                Some(if offset < WINDOW_BYTES / 2 {
                    rank
                } else {
                    1 - rank
                })
            };
            checker.add_window(start..start + WINDOW_BYTES, rank, Arc::new(writer));
        }
        let options = ExecutorOptions {
            seed: Some(seed),
            num_devices: RANKS as usize,
            deadline: Duration::from_secs(10),
            ..ExecutorOptions::default()
        };
        Self {
            checker,
            executor: Arc::new(Executor::new(options).unwrap()),
            _windows: windows,
            addresses,
        }
    }

    /// Runs a kernel three times on both ranks; what was found, and whether a launch failed.
    fn run(&self, kernel: &Kernel) -> (Verdict, bool) {
        let soc = Soc {
            num_aic: 2,
            ..Soc::named("Ascend910B1").unwrap()
        };
        let others: Vec<Box<dyn Buffer>> = (0..RANKS)
            .map(|rank| {
                let device = VirtualDevice::new(soc.clone(), rank, Arc::clone(&self.executor));
                upload(&device.with_checker(&self.checker), &[0f32; 256]).unwrap()
            })
            .collect();
        let failed: Vec<bool> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..RANKS)
                .map(|rank| {
                    let (soc, other) = (soc.clone(), view(others[1 - rank as usize].as_ref()));
                    scope.spawn(move || self.run_rank(kernel, soc, rank, other))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        drop(others);
        (self.checker.finish(), failed.contains(&true))
    }

    fn run_rank(&self, kernel: &Kernel, soc: Soc, rank: u32, other: Gm<f32>) -> bool {
        let device =
            VirtualDevice::new(soc, rank, Arc::clone(&self.executor)).with_checker(&self.checker);
        let input = upload(&device, &[1.5f32; 4096]).unwrap();
        let output = device.alloc(4 * 4096).unwrap();
        let words = upload(&device, &[0i32; 4096]).unwrap();
        let bytes = upload(&device, &[1i8; 65536]).unwrap();
        let windows = upload(&device, &self.addresses).unwrap();
        // The executor begins no rank's launch without the other's: a failure ends neither's.
        let failed = (1..=3).map(|epoch| {
            device.begin();
            let args = CorpusArgs {
                input: view(input.as_ref()),
                output: view(output.as_ref()),
                words: view(words.as_ref()),
                bytes: view(bytes.as_ref()),
                windows: view(windows.as_ref()),
                other,
                rank,
                epoch,
            };
            // SAFETY: the buffers are as large as the kernels of the corpus expect; accesses beyond them are refused.
            unsafe { run(&device, kernel, 2, &args) }.is_err()
        });
        let failed: Vec<bool> = failed.collect();
        failed.contains(&true)
    }
}

/// What is found under some orders of cores.
fn check(kernel: &Kernel) -> (Vec<Verdict>, bool) {
    let mut verdicts = Vec::new();
    let mut any_failed = false;
    for seed in 0..3 {
        let (verdict, failed) = World::new(seed).run(kernel);
        verdicts.push(verdict);
        any_failed |= failed;
    }
    (verdicts, any_failed)
}

#[test]
fn every_fault_is_reported_by_its_check() {
    let mut missed = Vec::new();
    for (kernel, want) in wrong() {
        let (verdicts, failed) = check(&kernel);
        let found = verdicts.iter().flat_map(|verdict| &verdict.findings);
        let checks: BTreeSet<Check> = found.map(|finding| finding.check).collect();
        // Cores that wait for ever are the device's to report.
        let is_deadlock =
            checks.is_empty() && failed && kernel.name == "wrong_barrier_of_some_cores";
        // A race between cores may also show as a read of nothing, in the order at hand.
        if !checks.contains(&want) && !is_deadlock {
            let texts: Vec<String> = verdicts
                .iter()
                .flat_map(|v| &v.findings)
                .map(ToString::to_string)
                .collect();
            missed.push(format!(
                "{}: wanted {want:?}: {}",
                kernel.name,
                texts.join("\n")
            ));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[test]
fn nothing_is_reported_where_nothing_is_wrong() {
    let mut alarms = Vec::new();
    for kernel in right() {
        let (verdicts, failed) = check(&kernel);
        for finding in verdicts.iter().flat_map(|verdict| &verdict.findings) {
            alarms.push(format!("{}: {finding}", kernel.name));
        }
        assert!(!failed, "{}", kernel.name);
        assert!(verdicts.iter().all(|verdict| verdict.instructions > 0));
    }
    assert!(alarms.is_empty(), "{}", alarms.join("\n\n"));
}

#[test]
fn the_corpus_is_as_large_as_it_should_be() {
    assert!(wrong().len() >= 30, "{}", wrong().len());
    assert!(right().len() >= 15, "{}", right().len());
}

/// A finding says who, where and what: all that is needed to go there.
#[test]
fn a_finding_names_both_instructions_and_the_flag() {
    let (kernel, _) = wrong()
        .into_iter()
        .find(|(kernel, _)| kernel.name == "wrong_compute_before_it_is_loaded")
        .unwrap();
    let (verdict, _) = World::new(0).run(&kernel);
    let [finding] = verdict.findings.as_slice() else {
        panic!("{:?}", verdict.findings);
    };
    let with = finding.with.as_ref().unwrap();
    assert_eq!((finding.by.instruction, finding.by.pipe), ("TMULS", "V"));
    assert_eq!((with.instruction, with.pipe), ("TLOAD", "MTE2"));
    for place in [&finding.by.place, &with.place] {
        assert!(
            place.contains("corpus.h:") || place.contains("corpus_wrong.cpp:"),
            "{place}"
        );
    }
    assert!(
        finding.memory.contains("bytes 0..256 of UB"),
        "{}",
        finding.memory
    );
    assert!(
        finding.hint.contains("set_flag(PIPE_MTE2, PIPE_V, id)"),
        "{}",
        finding.hint
    );
}
