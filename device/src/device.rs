//! What a device does, whichever it is.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bisheng_sys::CannError;
use moe_core::Soc;

/// Device code for the host: called once on every core, with the launch's arguments.
pub type KernelEntry = unsafe extern "C" fn(args: *mut u8);

/// The kernel of a name, as this crate's build script compiled it: [`Kernel`] with its code for both modes.
#[macro_export]
macro_rules! kernel {
    ($name:ident, $cores:ident) => {{
        unsafe extern "C" {
            fn $name(args: *mut u8);
        }
        mod checked {
            unsafe extern "C" {
                #[link_name = concat!("checked_", stringify!($name))]
                pub(super) fn $name(args: *mut u8);
            }
        }
        $crate::Kernel {
            name: stringify!($name),
            cores: $crate::KernelCores::$cores,
            entry: $name,
            checked: Some(checked::$name),
        }
    }};
}

/// Cores that a kernel runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelCores {
    /// Matrix cores only.
    Aic,
    /// Vector cores only, two of each physical core.
    Aiv,
    /// A matrix core and its two vector cores.
    Mix,
}

impl KernelCores {
    /// Whether matrix cores take part.
    #[must_use]
    pub fn has_aic(self) -> bool {
        self != Self::Aiv
    }

    /// Vector cores of each physical core that take part.
    #[must_use]
    pub fn aiv_per_block(self) -> u32 {
        if self == Self::Aic { 0 } else { 2 }
    }
}

/// A kernel: device code and the cores that it is written for.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Symbol.
    pub name: &'static str,
    /// Cores that it runs on.
    pub cores: KernelCores,
    /// Its code for the virtual device.
    pub entry: KernelEntry,
    /// The same for checked mode, where there is any.
    pub checked: Option<KernelEntry>,
}

impl Kernel {
    /// Checks the number of physical cores of a launch.
    pub(crate) fn check_blocks(&self, num_blocks: u32, soc: &Soc) -> Result<(), DeviceError> {
        if (1..=soc.num_aic).contains(&num_blocks) {
            return Ok(());
        }
        Err(DeviceError::Launch {
            kernel: self.name,
            name: "number of cores",
            value: num_blocks.into(),
            max: soc.num_aic.into(),
        })
    }
}

/// A device that can't do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// A kernel did what its core does not allow.
    #[error("rank {rank}, {kernel}: {reason}")]
    Kernel {
        /// The kernel.
        kernel: String,
        /// The device's rank.
        rank: u32,
        /// What it did, and which core.
        reason: String,
    },
    /// Every core waits and nothing can end it.
    #[error("deadlock, every core waits:{report}")]
    Deadlock {
        /// A line for each core.
        report: String,
    },
    /// A core waited too long.
    #[error("a core has waited longer than {waited:?}:{report}")]
    Deadline {
        /// The limit.
        waited: Duration,
        /// A line for each core.
        report: String,
    },
    /// A launch that can't be.
    #[error("launch of {kernel}: {name} is {value}, but must be from 1 to {max}")]
    Launch {
        /// The kernel.
        kernel: &'static str,
        /// Which number.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The largest allowed.
        max: u64,
    },
    /// Memory that is only read.
    #[error("a buffer of {size} bytes that the host shares is only read")]
    ReadOnly {
        /// Bytes of the buffer.
        size: u64,
    },
    /// Memory outside a buffer.
    #[error("bytes {offset}..+{len} of a buffer of {size}")]
    Range {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the buffer.
        size: u64,
    },
    /// Options that contradict each other.
    #[error("{reason}")]
    Options {
        /// What is wrong.
        reason: String,
    },
    /// A call of CANN failed.
    #[error(transparent)]
    Cann(#[from] CannError),
    /// A library of kernels for the NPU that is not as it should be.
    #[error("kernels for the NPU, {}: {reason}", path.display())]
    KernelLibrary {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The host has no more of something.
    #[error("can't get {what}: {reason}")]
    Host {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

/// Global memory that belongs to its holder; freed when dropped.
pub trait Buffer: Debug + Send {
    /// Address on the device.
    fn address(&self) -> u64;

    /// Bytes.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the bytes do not fit.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies to the host. Launches that write it must have ended ([`Device::synchronize`]).
    ///
    /// # Errors
    /// [`DeviceError::Range`] when the bytes are not there.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Fills all of it with a byte that means nothing: who reads it sees what nobody wrote.
    ///
    /// # Errors
    /// As [`Buffer::write`].
    fn poison(&mut self, byte: u8) -> Result<(), DeviceError> {
        self.write(0, &vec![byte; self.len() as usize])
    }

    /// The memory itself, where the host sees it.
    fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
}

/// Bytes of the host that a device may read for as long as it wants.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Where kernels run.
pub trait Device: Debug {
    /// Cores and memories.
    fn soc(&self) -> &Soc;

    /// Global memory, aligned to 512 bytes. Its contents are not defined.
    ///
    /// # Errors
    /// [`DeviceError::Host`] when there is not enough.
    fn alloc(&self, bytes: u64) -> Result<Box<dyn Buffer>, DeviceError>;

    /// Global memory that holds these bytes and is only read: the bytes themselves, where the device sees the
    /// host's memory and they are aligned as it needs (the virtual device: to 16 bytes), else a copy.
    ///
    /// # Errors
    /// As [`Device::alloc`].
    fn import(&self, bytes: SharedBytes) -> Result<Box<dyn Buffer>, DeviceError> {
        let bytes = (*bytes).as_ref();
        let mut buffer = self.alloc(bytes.len() as u64)?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    }

    /// Starts a kernel on `num_blocks` physical cores. Launches of a device run one after the other.
    ///
    /// # Safety
    /// `args` is the address of what the kernel takes, and everything that it refers to stays valid
    /// until [`Device::synchronize`] has returned.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] for more cores than there are.
    unsafe fn launch(&self, kernel: &Kernel, num_blocks: u32, args: u64)
    -> Result<(), DeviceError>;

    /// Waits for all launches.
    ///
    /// # Errors
    /// The first error of a launch since the last call.
    fn synchronize(&self) -> Result<(), DeviceError>;

    /// A launch of the operator begins, of one kernel or of several: what earlier ones left in memory is stale. For
    /// devices that check.
    fn begin(&self) {}

    /// Time of the launches that the last [`Device::synchronize`] waited for, by the device's own clock: without what
    /// the host does for them. `None` where there is no such clock.
    fn launch_time(&self) -> Option<Duration> {
        None
    }
}
