//! Kernels of a library in place of those that are linked: for who changes their source and looks what the checks say.

use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use crate::device::{DeviceError, KernelEntry};

/// A shared library with functions `checked_{kernel}`, compiled for checked mode. What they call is found in this
/// executable, which therefore exports its symbols (`-rdynamic`).
#[derive(Debug)]
pub struct CheckedKernels {
    library: Library,
}

impl CheckedKernels {
    /// Opens it.
    ///
    /// # Errors
    /// [`DeviceError::KernelLibrary`] with the loader's words.
    ///
    /// # Safety
    /// Its functions are kernels that take the arguments of those of the same name.
    pub unsafe fn open(path: &Path) -> Result<Arc<Self>, DeviceError> {
        // SAFETY: as the caller promises.
        let library =
            unsafe { Library::new(path) }.map_err(|error| DeviceError::KernelLibrary {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Arc::new(Self { library }))
    }

    /// A kernel of it, if it has that one.
    pub(crate) fn get(&self, kernel: &str) -> Option<KernelEntry> {
        let symbol = format!("checked_{kernel}");
        // SAFETY: functions of this name are kernels, as the opener promised.
        let entry = unsafe { self.library.get::<KernelEntry>(symbol.as_bytes()) };
        entry.ok().map(|entry| *entry)
    }
}
