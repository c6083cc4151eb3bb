//! Global memory of an NPU that is not given back under a kernel's feet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bisheng_sys::{Context, DeviceMemory};

use crate::device::{Buffer, DeviceError};

/// Whether kernels of a device may still run, and the memory that they may still use.
///
/// A wait can end before the kernels do: with an error, or because its time was over. Memory that is dropped then is
/// kept until the device's stream is gone.
#[derive(Debug, Default)]
pub(super) struct Running {
    is_busy: AtomicBool,
    kept: Mutex<Vec<DeviceMemory>>,
}

impl Running {
    /// A kernel is about to start, or all have ended.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }
}

/// Memory that kernels of a device use.
#[derive(Debug)]
pub(super) struct NpuBuffer {
    /// Always there, until the buffer is dropped.
    memory: Option<DeviceMemory>,
    running: Arc<Running>,
}

impl NpuBuffer {
    pub(super) fn new(
        context: &Arc<Context>,
        bytes: u64,
        running: &Arc<Running>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            memory: Some(DeviceMemory::new(context, bytes)?),
            running: Arc::clone(running),
        })
    }

    fn memory(&self) -> &DeviceMemory {
        self.memory.as_ref().expect("only drop takes it")
    }
}

impl Drop for NpuBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take().filter(|_| self.running.is_busy()) {
            let kept = self.running.kept.lock();
            kept.unwrap_or_else(PoisonError::into_inner).push(memory);
        }
    }
}

impl Buffer for NpuBuffer {
    fn address(&self) -> u64 {
        self.memory().address()
    }

    fn len(&self) -> u64 {
        self.memory().len()
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let memory = self.memory.as_mut().expect("only drop takes it");
        Ok(memory.write(offset, bytes)?)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        Ok(self.memory().read(offset, bytes)?)
    }
}
