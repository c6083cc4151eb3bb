//! The virtual Ascend: a device whose cores are coroutines of this process.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::MmapMut;
use moe_core::Soc;

use crate::checked::{CheckedKernels, Checker};
use crate::device::{Buffer, Device, DeviceError, Kernel, SharedBytes};
use crate::runtime::executor::{Executor, ExecutorOptions, Submission};
use crate::runtime::huge_pages;
use crate::runtime::launch::{LaunchState, Outside};

/// A device of a rank, on an executor that it may share with the devices of other ranks.
pub struct VirtualDevice {
    soc: Soc,
    rank: u32,
    executor: Arc<Executor>,
    outside: Outside,
    launches: Mutex<Vec<Arc<LaunchState>>>,
    constants: Constants,
    checked_kernels: Option<Arc<CheckedKernels>>,
}

/// Imported memory, which kernels only read.
type Constants = Arc<Mutex<Vec<Range<u64>>>>;

impl std::fmt::Debug for VirtualDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualDevice")
            .field("soc", &self.soc.name)
            .field("rank", &self.rank)
            .finish_non_exhaustive()
    }
}

impl VirtualDevice {
    /// The device of `rank`. A SoC with 0 matrix cores gets as many as the machine has processors.
    #[must_use]
    pub fn new(soc: Soc, rank: u32, executor: Arc<Executor>) -> Self {
        let soc = soc.on_this_machine();
        Self {
            soc,
            rank,
            executor,
            outside: Outside::default(),
            launches: Mutex::default(),
            constants: Constants::default(),
            checked_kernels: None,
        }
    }

    /// A device with an executor of its own, as rank 0.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub fn alone(soc: Soc, options: ExecutorOptions) -> Result<Self, DeviceError> {
        Ok(Self::new(soc, 0, Arc::new(Executor::new(options)?)))
    }

    /// Asked while cores wait: why it is in vain, if it is. A window's failure, for example.
    #[must_use]
    pub fn with_peer_failure(
        mut self,
        failure: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.outside.failure = Some(Arc::new(failure));
        self
    }

    /// Asked for reports of cores that wait: what lies at an address, if it is known. A window's signals, for
    /// example.
    #[must_use]
    pub fn with_names(
        mut self,
        names: impl Fn(u64) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.outside.names = Some(Arc::new(names));
        self
    }

    /// Checks every launch: kernels run as they were compiled for it. Devices of ranks that share windows share the
    /// checker. Set it before anything is allocated.
    #[must_use]
    pub fn with_checker(mut self, checker: &Arc<Checker>) -> Self {
        self.outside.checker = Some(Arc::clone(checker));
        self
    }

    /// In checked mode: runs these kernels instead of those that are linked, where the library has them.
    #[must_use]
    pub fn with_checked_kernels(mut self, kernels: &Arc<CheckedKernels>) -> Self {
        self.checked_kernels = Some(Arc::clone(kernels));
        self
    }

    fn end_launches(&self) -> Result<(), DeviceError> {
        let mut launches = locked(&self.launches);
        let results: Vec<_> = launches.drain(..).map(|launch| launch.wait()).collect();
        results.into_iter().collect()
    }
}

impl Device for VirtualDevice {
    fn soc(&self) -> &Soc {
        &self.soc
    }

    fn alloc(&self, bytes: u64) -> Result<Box<dyn Buffer>, DeviceError> {
        let host = |reason: String| DeviceError::Host {
            what: format!("{bytes} bytes of global memory"),
            reason,
        };
        let len = usize::try_from(bytes).map_err(|error| host(error.to_string()))?;
        let checker = self.outside.checker.clone();
        let guard = if checker.is_some() { GUARD } else { 0 };
        // Pages are aligned to more than 512 bytes.
        let map = MmapMut::map_anon(len.max(1).saturating_add(2 * guard))
            .map_err(|error| host(error.to_string()))?;
        let buffer = HostBuffer {
            map,
            len,
            guard,
            checker,
        };
        if let Some(checker) = &buffer.checker {
            checker.add_buffer(buffer.range(), self.rank);
        }
        Ok(Box::new(buffer))
    }

    fn import(&self, bytes: SharedBytes) -> Result<Box<dyn Buffer>, DeviceError> {
        let host = (*bytes).as_ref();
        let is_checked = self.outside.checker.is_some();
        if host.as_ptr().addr().is_multiple_of(IMPORT_ALIGN) && !is_checked {
            huge_pages::collapse(host);
            return Ok(Box::new(SharedBuffer::new(bytes, &self.constants)));
        }
        let mut buffer = self.alloc(host.len() as u64)?;
        buffer.write(0, host)?;
        Ok(buffer)
    }

    unsafe fn launch(
        &self,
        kernel: &Kernel,
        num_blocks: u32,
        args: u64,
    ) -> Result<(), DeviceError> {
        kernel.check_blocks(num_blocks, &self.soc)?;
        // One launch after the other, as on a stream.
        self.end_launches()?;
        let launch = LaunchState::new(
            kernel.name.to_owned(),
            self.rank,
            num_blocks,
            kernel.cores,
            &self.soc,
            Outside {
                constants: locked(&self.constants).clone(),
                ..self.outside.clone()
            },
        );
        let launch = Arc::new(launch);
        let replaced = self
            .checked_kernels
            .as_ref()
            .and_then(|kernels| kernels.get(kernel.name));
        let checked = replaced.or(kernel.checked);
        let checked = checked.filter(|_| self.outside.checker.is_some());
        self.executor.submit(&Submission {
            launch: Arc::clone(&launch),
            entry: checked.unwrap_or(kernel.entry),
            args,
        })?;
        locked(&self.launches).push(launch);
        Ok(())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.end_launches()
    }

    fn begin(&self) {
        if let Some(checker) = &self.outside.checker {
            checker.begin(self.rank);
        }
    }
}

impl Drop for VirtualDevice {
    fn drop(&mut self) {
        // Cores must not outlive what they were launched on; an error has nobody left to see it.
        let _ = self.end_launches();
    }
}

/// Alignment from which imported bytes stay where they are: what allocators give. Instructions move global
/// memory with unaligned loads; a copy of a layer's weights would double its memory.
const IMPORT_ALIGN: usize = 16;

/// Bytes before and after a buffer in checked mode that are nobody's: who leaves it is not in the next one.
const GUARD: usize = 4096;

fn range(size: usize, offset: u64, len: usize) -> Result<Range<usize>, DeviceError> {
    let end = offset.checked_add(len as u64);
    match end {
        Some(end) if end <= size as u64 => Ok(offset as usize..end as usize),
        _ => Err(DeviceError::Range {
            offset,
            len: len as u64,
            size: size as u64,
        }),
    }
}

#[derive(Debug)]
struct HostBuffer {
    map: MmapMut,
    len: usize,
    /// Bytes of the map before and after the buffer.
    guard: usize,
    checker: Option<Arc<Checker>>,
}

impl HostBuffer {
    fn range(&self) -> Range<u64> {
        self.address()..self.address() + self.len as u64
    }

    fn bytes(&self) -> &[u8] {
        &self.map[self.guard..self.guard + self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.map[self.guard..self.guard + self.len]
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if let Some(checker) = &self.checker {
            checker.remove_buffer(self.range());
        }
    }
}

impl Buffer for HostBuffer {
    fn address(&self) -> u64 {
        self.bytes().as_ptr() as u64
    }

    fn len(&self) -> u64 {
        self.len as u64
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let range = range(self.len, offset, bytes.len())?;
        self.bytes_mut()[range].copy_from_slice(bytes);
        if let Some(checker) = &self.checker {
            let start = self.address() + offset;
            checker.host_wrote(start..start + bytes.len() as u64);
        }
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let range = range(self.len, offset, bytes.len())?;
        bytes.copy_from_slice(&self.bytes()[range]);
        Ok(())
    }

    fn poison(&mut self, byte: u8) -> Result<(), DeviceError> {
        self.bytes_mut().fill(byte);
        if let Some(checker) = &self.checker {
            checker.host_forgot(self.range());
        }
        Ok(())
    }

    fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        if let Some(checker) = &self.checker {
            checker.host_wrote(self.range());
        }
        Some(self.bytes_mut())
    }
}

/// Memory of the host that kernels read where it lies.
struct SharedBuffer {
    shared: SharedBytes,
    constants: Constants,
}

impl SharedBuffer {
    fn new(shared: SharedBytes, constants: &Constants) -> Self {
        let buffer = Self {
            shared,
            constants: Arc::clone(constants),
        };
        locked(constants).push(buffer.range());
        buffer
    }

    fn bytes(&self) -> &[u8] {
        (*self.shared).as_ref()
    }

    fn range(&self) -> Range<u64> {
        self.address()..self.address() + self.len()
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        let mut constants = locked(&self.constants);
        // The same bytes may have been imported more than once.
        if let Some(place) = constants.iter().position(|range| *range == self.range()) {
            constants.swap_remove(place);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBuffer")
            .field("len", &self.len())
            .finish()
    }
}

impl Buffer for SharedBuffer {
    fn address(&self) -> u64 {
        self.bytes().as_ptr() as u64
    }

    fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn write(&mut self, _offset: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::ReadOnly { size: self.len() })
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let range = range(self.bytes().len(), offset, bytes.len())?;
        bytes.copy_from_slice(&self.bytes()[range]);
        Ok(())
    }
}
