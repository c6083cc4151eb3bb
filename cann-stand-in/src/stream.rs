//! Streams: a thread each, which does what it is given, in order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bisheng_sys::bindings::acl;
use megamoe_device::{Device, DeviceError, Executor, ExecutorOptions, Kernel, VirtualDevice};
use moe_core::Soc;

use crate::state::Failure;

/// Something to be done in a stream.
pub(crate) enum Work {
    /// A kernel on some cores.
    Launch {
        kernel: Kernel,
        num_blocks: u32,
        args: u64,
    },
    /// An event happens.
    Record(Arc<Mutex<Option<Instant>>>),
    /// All ranks of a communicator meet; the function waits for them until it is told to stop.
    Barrier(Box<dyn FnOnce(&AtomicBool) + Send>),
}

#[derive(Default)]
struct Progress {
    given: u64,
    done: u64,
    error: Option<DeviceError>,
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
    /// The stream is being destroyed: whatever waits in it, stops.
    stop: AtomicBool,
}

/// A stream of an NPU.
pub(crate) struct Stream {
    shared: Arc<Shared>,
    work: Mutex<Option<Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// No core waits longer; who waits for the stream gives up long before.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Stream {
    pub(crate) fn new(soc: &Soc, device: u32) -> Result<Arc<Self>, Failure> {
        let shared = Arc::new(Shared::default());
        let options = ExecutorOptions {
            workers: 1,
            has_outside_peers: true,
            deadline: LONGEST_WAIT,
            poison: true,
            ..ExecutorOptions::default()
        };
        let no_stream = |reason: String| Failure::acl(acl::ACL_ERROR_RT_NO_STREAM_RESOURCE, reason);
        let executor = Executor::new(options).map_err(|error| no_stream(error.to_string()))?;
        let stop = Arc::clone(&shared);
        let stopped = move || {
            stop.stop
                .load(Ordering::Relaxed)
                .then(|| "its stream is destroyed".to_owned())
        };
        let npu =
            VirtualDevice::new(soc.clone(), device, Arc::new(executor)).with_peer_failure(stopped);
        let (sender, receiver) = channel();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("npu {device}"))
            .spawn(move || of_thread.run(&npu, &receiver))
            .map_err(|error| no_stream(error.to_string()))?;
        Ok(Arc::new(Self {
            shared,
            work: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Puts work into it.
    pub(crate) fn give(&self, work: Work) {
        self.shared.locked().given += 1;
        if let Some(sender) = &*self.work.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread ends after the sender does.
            let _ = sender.send(work);
        }
    }

    /// Waits until all work that it has now is done.
    pub(crate) fn synchronize(&self, timeout: Option<Duration>) -> Result<(), Failure> {
        let mut progress = self.shared.locked();
        let target = progress.given;
        let start = Instant::now();
        while progress.done < target {
            let left = timeout.map_or(LONGEST_WAIT, |limit| limit.saturating_sub(start.elapsed()));
            if left.is_zero() {
                let message = format!("the stream is not done after {timeout:?}");
                return Err(Failure::acl(acl::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, message));
            }
            let waited = self.shared.changed.wait_timeout(progress, left);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match progress.error.take() {
            Some(error) => Err(Failure::acl(
                acl::ACL_ERROR_RT_AICORE_EXCEPTION,
                error.to_string(),
            )),
            None => Ok(()),
        }
    }

    /// Ends it, with whatever it does.
    pub(crate) fn destroy(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // Kernels that fail are errors, not panics; a panic has printed its words.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn locked(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, npu: &VirtualDevice, work: &Receiver<Work>) {
        for work in work {
            let result = match work {
                Work::Launch {
                    kernel,
                    num_blocks,
                    args,
                } => {
                    // SAFETY: who launched it keeps the arguments until the stream is done, as with CANN.
                    unsafe { npu.launch(&kernel, num_blocks, args) }
                        .and_then(|()| npu.synchronize())
                }
                Work::Record(event) => {
                    *event.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                    Ok(())
                }
                Work::Barrier(meet) => {
                    meet(&self.stop);
                    Ok(())
                }
            };
            let mut progress = self.locked();
            progress.done += 1;
            if let Err(error) = result {
                progress.error.get_or_insert(error);
            }
            self.changed.notify_all();
        }
    }
}
