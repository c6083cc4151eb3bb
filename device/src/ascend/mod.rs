//! An NPU as a device: memory, launches and time by CANN, kernels out of a library that `bisheng` built.
//!
//! Nothing of it has met an NPU yet; tests run it against a stand-in of CANN's ABI.

mod buffer;
mod kernels;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bisheng_sys::{Context, Event, Stream};
use moe_core::Soc;

use crate::device::{Buffer, Device, DeviceError, Kernel};

use buffer::{NpuBuffer, Running};
pub use kernels::KernelLibrary;

/// Longest sleep of the host before it looks whether a peer has failed.
const SLICE: Duration = Duration::from_millis(100);

/// The NPU of a rank.
pub struct AscendDevice {
    soc: Soc,
    rank: u32,
    context: Arc<Context>,
    // Before the memory that its kernels may still use.
    stream: Stream,
    running: Arc<Running>,
    kernels: Arc<KernelLibrary>,
    sync_address: u64,
    deadline: Duration,
    failure: Option<Failure>,
    /// Before the first and behind the last launch that nobody waited for yet.
    span: (Event, Event),
    launches: Mutex<Launches>,
}

/// Why waiting is in vain, if it is.
type Failure = Box<dyn Fn() -> Option<String> + Send + Sync>;

#[derive(Default)]
struct Launches {
    /// Kernels that were launched and not waited for.
    pending: Vec<&'static str>,
    /// Time of those that were.
    time: Option<Duration>,
}

impl std::fmt::Debug for AscendDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AscendDevice")
            .field("soc", &self.soc.name)
            .field("rank", &self.rank)
            .field("device", &self.context.device())
            .finish_non_exhaustive()
    }
}

impl AscendDevice {
    /// The NPU behind a context, as the device of `rank`; `deadline` limits every wait for its launches.
    ///
    /// # Errors
    /// [`DeviceError::Cann`] names the call that failed; [`DeviceError::Options`] for a SoC that is not described.
    pub fn new(
        context: &Arc<Context>,
        rank: u32,
        kernels: &Arc<KernelLibrary>,
        deadline: Duration,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            soc: soc_of(context)?,
            rank,
            context: Arc::clone(context),
            stream: Stream::new(context)?,
            running: Arc::default(),
            kernels: Arc::clone(kernels),
            sync_address: context.sync_address()?,
            deadline,
            failure: None,
            span: (Event::new(context)?, Event::new(context)?),
            launches: Mutex::default(),
        })
    }

    /// Asked while the host waits: why it is in vain, if it is. A window's failure, for example.
    #[must_use]
    pub fn with_peer_failure(
        mut self,
        failure: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.failure = Some(Box::new(failure));
        self
    }

    /// Waits until the stream is empty, a peer has failed or the time is over.
    fn wait(&self, pending: &[&'static str]) -> Result<(), DeviceError> {
        let start = Instant::now();
        loop {
            let left = self.deadline.saturating_sub(start.elapsed());
            match self.stream.synchronize(left.min(SLICE)) {
                Err(error) if error.is_timeout() => {}
                result => return Ok(result?),
            }
            if let Some(reason) = self.failure.as_ref().and_then(|failure| failure()) {
                return Err(DeviceError::Kernel {
                    kernel: pending.join(", "),
                    rank: self.rank,
                    reason,
                });
            }
            if start.elapsed() >= self.deadline {
                let device = self.context.device();
                return Err(DeviceError::Deadline {
                    waited: self.deadline,
                    report: format!(
                        " rank {}, {} on NPU {device}",
                        self.rank,
                        pending.join(", ")
                    ),
                });
            }
        }
    }
}

/// The description of an NPU, with the cores that it says it has.
fn soc_of(context: &Context) -> Result<Soc, DeviceError> {
    let name = context.soc_name()?;
    let cores = context.cores()?;
    let mut soc = Soc::named(&name).map_err(|error| DeviceError::Options {
        reason: format!("NPU {}: {error}", context.device()),
    })?;
    if cores.num_aic == 0 || cores.num_aiv != cores.num_aic * soc.aiv_per_aic {
        let (aic, aiv) = (cores.num_aic, cores.num_aiv);
        return Err(DeviceError::Options {
            reason: format!(
                "NPU {} ({name}) has {aic} matrix and {aiv} vector cores, but there must be {} vector cores to each \
                 matrix core",
                context.device(),
                soc.aiv_per_aic
            ),
        });
    }
    soc.num_aic = cores.num_aic;
    Ok(soc)
}

impl Device for AscendDevice {
    fn soc(&self) -> &Soc {
        &self.soc
    }

    fn alloc(&self, bytes: u64) -> Result<Box<dyn Buffer>, DeviceError> {
        Ok(Box::new(NpuBuffer::new(
            &self.context,
            bytes,
            &self.running,
        )?))
    }

    unsafe fn launch(
        &self,
        kernel: &Kernel,
        num_blocks: u32,
        args: u64,
    ) -> Result<(), DeviceError> {
        kernel.check_blocks(num_blocks, &self.soc)?;
        let launch = self.kernels.launcher(kernel.name)?;
        let mut launches = locked(&self.launches);
        self.stream.enter()?;
        if launches.pending.is_empty() {
            self.span.0.record(&self.stream)?;
        }
        self.running.set_busy(true);
        // SAFETY: the library has this function for the kernel; the stream lives, and the arguments do as the caller
        // promises.
        unsafe { launch(num_blocks, self.stream.as_raw(), self.sync_address, args) };
        launches.pending.push(kernel.name);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        let mut launches = locked(&self.launches);
        let pending = std::mem::take(&mut launches.pending);
        if pending.is_empty() {
            return Ok(());
        }
        launches.time = None;
        self.span.1.record(&self.stream)?;
        self.wait(&pending)?;
        self.running.set_busy(false);
        launches.time = Some(self.span.1.since(&self.span.0)?);
        Ok(())
    }

    fn launch_time(&self) -> Option<Duration> {
        locked(&self.launches).time
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
