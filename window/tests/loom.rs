//! The protocol under every interleaving and every memory order that the model allows. Each property
//! is checked for the real functions and refuted for a broken variant, so that the model is known to
//! see the fault.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p megamoe-window --test loom --release`
#![cfg(loom)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use megamoe_window::layout::LINE_WORDS;
use megamoe_window::protocol::{notify_set, publish_counts, read_signal, take_counts};
use moe_core::limits::COUNT_MARKER;

/// What a variant of the protocol does wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The reader's load of the flag does not order what follows.
    AcquireWeakened,
    /// The writer's store of the flag does not order what came before.
    ReleaseWeakened,
    /// The flag tells of the payload before it is there.
    FlagBeforePayload,
    /// The receiver allows reuse before it has copied the payload.
    AcknowledgedBeforeCopy,
    /// The second launch has the epoch of the first.
    EpochNotAdvanced,
    /// One table serves all launches.
    OneTable,
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(6);
    builder.check(model);
}

#[track_caller]
fn assert_refuted(model: impl Fn() + Sync + Send + 'static) {
    let found = catch_unwind(AssertUnwindSafe(|| check(model))).is_err();
    assert!(found, "the model does not see the fault");
}

// ---- rules 1 and 2: payload, then flag ----

/// A row with its payload elsewhere: what packed rows and their ready signal are.
struct Mail {
    payload: UnsafeCell<u32>,
    flag: AtomicU32,
    acknowledged: AtomicU32,
}

fn mail(fault: Fault) {
    let mail = Arc::new(Mail {
        payload: UnsafeCell::new(0),
        flag: AtomicU32::new(0),
        acknowledged: AtomicU32::new(0),
    });
    let sender = {
        let mail = Arc::clone(&mail);
        loom::thread::spawn(move || {
            for epoch in 1..=2 {
                while read_signal(&mail.acknowledged) != epoch - 1 {
                    loom::thread::yield_now();
                }
                send(&mail, epoch, fault);
            }
        })
    };
    for epoch in 1..=2 {
        let seen = || match fault {
            Fault::AcquireWeakened => mail.flag.load(Ordering::Relaxed) as i32,
            _ => read_signal(&mail.flag),
        };
        while seen() < epoch {
            loom::thread::yield_now();
        }
        if fault == Fault::AcknowledgedBeforeCopy {
            notify_set(&mail.acknowledged, epoch);
        }
        // SAFETY: the protocol keeps the sender away; loom checks that it does.
        let payload = mail.payload.with(|payload| unsafe { *payload });
        assert_eq!(payload, 100 + epoch as u32);
        notify_set(&mail.acknowledged, epoch);
    }
    sender.join().unwrap();
}

fn send(mail: &Mail, epoch: i32, fault: Fault) {
    let write = || {
        // SAFETY: the protocol keeps the receiver away; loom checks that it does.
        mail.payload
            .with_mut(|payload| unsafe { *payload = 100 + epoch as u32 });
    };
    match fault {
        Fault::FlagBeforePayload => {
            notify_set(&mail.flag, epoch);
            write();
        }
        Fault::ReleaseWeakened => {
            write();
            mail.flag.store(epoch as u32, Ordering::Relaxed);
        }
        _ => {
            write();
            notify_set(&mail.flag, epoch);
        }
    }
}

#[test]
fn a_signal_carries_the_payload() {
    check(|| mail(Fault::None));
}

#[test]
fn a_weak_acquire_is_seen() {
    assert_refuted(|| mail(Fault::AcquireWeakened));
}

#[test]
fn a_weak_release_is_seen() {
    assert_refuted(|| mail(Fault::ReleaseWeakened));
}

#[test]
fn a_flag_before_the_payload_is_seen() {
    assert_refuted(|| mail(Fault::FlagBeforePayload));
}

#[test]
fn a_flag_cleared_before_the_payload_is_copied_is_seen() {
    assert_refuted(|| mail(Fault::AcknowledgedBeforeCopy));
}

// ---- rules 3 to 5: counts of three launches ----

/// Two ranks' tables of counts: `[rank][table]`, a shortened line each.
struct Windows {
    rows: [[Vec<AtomicU32>; 2]; 2],
}

/// A line of three words stands for one of [`LINE_WORDS`]: the functions take the last as the flag.
const WORDS: usize = 3;

fn windows() -> Windows {
    assert!(WORDS < LINE_WORDS as usize);
    let row = || (0..WORDS).map(|_| AtomicU32::new(0)).collect();
    let rank = || [row(), row()];
    Windows {
        rows: [rank(), rank()],
    }
}

fn count(rank: usize, launch: i32) -> u32 {
    10 * launch as u32 + rank as u32
}

/// A rank that launches three times: publish to the peer, take from the peer.
fn rank(windows: &Windows, rank: usize, fault: Fault) {
    let peer = 1 - rank;
    for launch in 1..=3 {
        let epoch = if fault == Fault::EpochNotAdvanced {
            1
        } else {
            launch
        };
        let table = if fault == Fault::OneTable {
            0
        } else {
            launch as usize % 2
        };
        publish_counts(&windows.rows[peer][table], &[count(rank, launch)], epoch);
        let row = &windows.rows[rank][table];
        let taken = loop {
            let taken = match fault {
                Fault::AcquireWeakened => take_weakly(row, epoch),
                _ => take_counts(row, 1, epoch),
            };
            match taken {
                Some(taken) => break taken,
                None => loom::thread::yield_now(),
            }
        };
        assert_eq!(taken, [count(peer, launch)], "launch {launch}");
    }
}

fn take_weakly(row: &[AtomicU32], epoch: i32) -> Option<Vec<u32>> {
    let flag = row[WORDS - 1].load(Ordering::Relaxed);
    (flag == epoch as u32).then(|| {
        vec![
            row[0]
                .load(Ordering::Relaxed)
                .wrapping_sub(COUNT_MARKER as u32),
        ]
    })
}

fn exchange(fault: Fault) {
    let windows = Arc::new(windows());
    let other = {
        let windows = Arc::clone(&windows);
        loom::thread::spawn(move || rank(&windows, 1, fault))
    };
    rank(&windows, 0, fault);
    other.join().unwrap();
}

#[test]
fn counts_of_three_launches_never_mix() {
    check(|| exchange(Fault::None));
}

#[test]
fn a_weak_acquire_of_counts_is_seen() {
    assert_refuted(|| exchange(Fault::AcquireWeakened));
}

#[test]
fn an_epoch_that_does_not_advance_is_seen() {
    assert_refuted(|| exchange(Fault::EpochNotAdvanced));
}

#[test]
fn one_table_for_all_launches_is_seen() {
    assert_refuted(|| exchange(Fault::OneTable));
}
