//! The library that holds kernels for the NPU.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use crate::device::{DeviceError, Kernel};

/// Puts a kernel into a stream: number of physical cores, stream, address of the flags between cores, arguments.
pub(super) type Launcher =
    unsafe extern "C" fn(num_blocks: u32, stream: *mut c_void, sync: u64, args: u64);

/// A shared library with a function `launch_{kernel}` for each kernel, as `bisheng-build` makes it.
#[derive(Debug)]
pub struct KernelLibrary {
    library: Library,
    path: PathBuf,
}

impl KernelLibrary {
    /// Opens it. CANN's libraries are open by then: opening it hands its device code to them.
    ///
    /// # Errors
    /// [`DeviceError::KernelLibrary`] with the loader's words.
    pub fn open(path: &Path) -> Result<Arc<Self>, DeviceError> {
        // SAFETY: its initialisers register device code, as those of any library with kernels.
        let library =
            unsafe { Library::new(path) }.map_err(|error| DeviceError::KernelLibrary {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(Arc::new(Self {
            library,
            path: path.to_owned(),
        }))
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Those of some kernels that it does not have.
    #[must_use]
    pub fn missing(&self, kernels: &[Kernel]) -> Vec<&'static str> {
        let names = kernels.iter().map(|kernel| kernel.name);
        names.filter(|name| self.launcher(name).is_err()).collect()
    }

    pub(super) fn launcher(&self, kernel: &'static str) -> Result<Launcher, DeviceError> {
        let symbol = format!("launch_{kernel}");
        // SAFETY: `MEGAMOE_KERNEL` declares functions of this name with this signature; pointers are 64 bits wide.
        let launcher = unsafe { self.library.get::<Launcher>(symbol.as_bytes()) };
        match launcher {
            Ok(launcher) => Ok(*launcher),
            Err(_) => Err(DeviceError::KernelLibrary {
                path: self.path.clone(),
                reason: format!("it has no {symbol}: it was built from other kernels"),
            }),
        }
    }
}
