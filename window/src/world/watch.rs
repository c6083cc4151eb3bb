//! Watches the processes of a world's ranks, for worlds without a parent that does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::control::{Control, State};

const PERIOD: Duration = Duration::from_millis(100);

/// A thread that marks ranks as failed whose process is gone. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches all ranks but `own`; every one has arrived.
    pub(super) fn start(control: Control, own: u32, num_ranks: u32) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut peers = Vec::new();
        for rank in (0..num_ranks).filter(|&rank| rank != own) {
            match open(control.pid(rank)) {
                Some(pidfd) => peers.push((rank, pidfd)),
                None => report(&control, rank),
            }
        }
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("peers".to_owned())
            .spawn(move || watch(&control, peers, &stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It holds nothing that a panic could spoil.
            let _ = thread.join();
        }
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

fn report(control: &Control, rank: u32) {
    if control.state(rank) != State::Finished {
        control.fail(rank, "its process is gone");
    }
}

fn watch(control: &Control, mut peers: Vec<(u32, OwnedFd)>, stop: &AtomicBool) {
    let period = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: PERIOD.as_nanos() as i64,
    };
    while !stop.load(Ordering::Relaxed) && !peers.is_empty() {
        let gone: Vec<bool> = {
            let mut descriptors: Vec<PollFd<'_>> = peers
                .iter()
                .map(|(_, pidfd)| PollFd::new(pidfd, PollFlags::IN))
                .collect();
            if poll(&mut descriptors, Some(&period)).is_err() {
                continue;
            }
            descriptors
                .iter()
                .map(|descriptor| descriptor.revents().contains(PollFlags::IN))
                .collect()
        };
        let mut gone = gone.into_iter();
        peers.retain(|(rank, _)| {
            let gone = gone.next().unwrap_or(false);
            if gone {
                report(control, *rank);
            }
            !gone
        });
    }
}
