//! Start and end of the runtime, and its devices.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use crate::bindings::acl;
use crate::error::{CannError, call_acl};
use crate::library::Cann;

/// Something that CANN made and that its functions take back. CANN lets any thread use it whose current context
/// is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: it is a name to CANN, which locks what it names; nobody looks behind it.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// What `function` made.
    pub(crate) fn new(function: &'static str, raw: *mut c_void) -> Result<Self, CannError> {
        if raw.is_null() {
            return Err(CannError::answer(function, "it gave a null pointer"));
        }
        Ok(Self(raw))
    }

    pub(crate) fn raw(self) -> *mut c_void {
        self.0
    }
}

/// What can only be told to a log: the value is gone.
pub(crate) fn log(result: Result<(), CannError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "CANN did not take something back");
    }
}

/// The runtime of this process, started. Ends it when dropped.
#[derive(Debug)]
pub struct Runtime {
    cann: Arc<Cann>,
    /// Somebody else in this process had started it, and will end it.
    is_guest: bool,
}

impl Runtime {
    /// Starts it.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn start(cann: &Arc<Cann>) -> Result<Arc<Self>, CannError> {
        // SAFETY: no configuration file is a null pointer.
        let started = unsafe { call_acl!(cann, aclInit(std::ptr::null())) };
        let again = i64::from(acl::ACL_ERROR_REPEAT_INITIALIZE);
        let is_guest = matches!(&started, Err(CannError::Call { code, .. }) if *code == again);
        if !is_guest {
            started?;
        }
        Ok(Arc::new(Self {
            cann: Arc::clone(cann),
            is_guest,
        }))
    }

    pub(crate) fn cann(&self) -> &Arc<Cann> {
        &self.cann
    }

    /// Version of the runtime: major, minor, patch.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn version(&self) -> Result<[i32; 3], CannError> {
        let [mut major, mut minor, mut patch] = [0; 3];
        // SAFETY: three integers to be written.
        unsafe {
            call_acl!(
                self.cann,
                aclrtGetVersion(&mut major, &mut minor, &mut patch)
            )
        }?;
        Ok([major, minor, patch])
    }

    /// Devices of this machine.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn num_devices(&self) -> Result<u32, CannError> {
        let mut count = 0;
        // SAFETY: an integer to be written.
        unsafe { call_acl!(self.cann, aclrtGetDeviceCount(&mut count)) }?;
        Ok(count)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.is_guest {
            // SAFETY: everything that was made through this runtime holds it, so all of it is gone.
            log(unsafe { call_acl!(self.cann, aclFinalize()) });
        }
    }
}

/// Cores of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Matrix cores.
    pub num_aic: u32,
    /// Vector cores.
    pub num_aiv: u32,
}

/// A device in use by this process: its default context. Resets the device when dropped.
#[derive(Debug)]
pub struct Context {
    runtime: Arc<Runtime>,
    device: i32,
    handle: Handle,
}

impl Context {
    /// Takes a device into use, for this thread and for all that hold the context.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn open(runtime: &Arc<Runtime>, device: u32) -> Result<Arc<Self>, CannError> {
        let cann = &runtime.cann;
        let device = i32::try_from(device).unwrap_or(i32::MAX);
        // SAFETY: the device is a number.
        unsafe { call_acl!(cann, aclrtSetDevice(device)) }?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a pointer to be written.
        let got = unsafe { call_acl!(cann, aclrtGetCurrentContext(&mut raw)) };
        match got.and_then(|()| Handle::new("aclrtGetCurrentContext", raw)) {
            Ok(handle) => Ok(Arc::new(Self {
                runtime: Arc::clone(runtime),
                device,
                handle,
            })),
            Err(error) => {
                // SAFETY: the device was set above.
                log(unsafe { call_acl!(cann, aclrtResetDevice(device)) });
                Err(error)
            }
        }
    }

    /// CANN's functions, with this context as the thread's.
    pub(crate) fn enter(&self) -> Result<&Cann, CannError> {
        let cann = self.runtime.cann();
        // SAFETY: the context lives as long as the device is set, which `self` sees to.
        unsafe { call_acl!(cann, aclrtSetCurrentContext(self.handle.raw())) }?;
        Ok(cann)
    }

    /// The device's number.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.device.unsigned_abs()
    }

    /// Name of the device's SoC, for example `Ascend910B1`.
    ///
    /// # Errors
    /// [`CannError`] when CANN knows none.
    pub fn soc_name(&self) -> Result<String, CannError> {
        const FUNCTION: &str = "aclrtGetSocName";
        let cann = self.enter()?;
        let function = cann.acl().aclrtGetSocName.as_ref();
        let function = function.map_err(|error| CannError::MissingFunction {
            function: FUNCTION,
            reason: error.to_string(),
        })?;
        // SAFETY: it takes nothing.
        let name = unsafe { function() };
        if name.is_null() {
            return Err(CannError::answer(FUNCTION, "it gave no name"));
        }
        // SAFETY: a constant text of CANN's.
        let name = unsafe { CStr::from_ptr(name) };
        Ok(name.to_string_lossy().into_owned())
    }

    /// Cores of the device.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn cores(&self) -> Result<Cores, CannError> {
        let number = |attribute, what: &str| {
            let cann = self.enter()?;
            let mut value = 0i64;
            // SAFETY: an integer to be written.
            unsafe {
                call_acl!(
                    cann,
                    aclrtGetDeviceInfo(self.device(), attribute, &mut value)
                )
            }?;
            u32::try_from(value).map_err(|_| {
                CannError::answer(
                    "aclrtGetDeviceInfo",
                    format!("the device has {value} {what} cores"),
                )
            })
        };
        Ok(Cores {
            num_aic: number(acl::ACL_DEV_ATTR_CUBE_CORE_NUM, "matrix")?,
            num_aiv: number(acl::ACL_DEV_ATTR_VECTOR_CORE_NUM, "vector")?,
        })
    }

    /// Bytes of device memory: free, and in all.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn memory(&self) -> Result<(u64, u64), CannError> {
        let cann = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers to be written.
        unsafe {
            call_acl!(
                cann,
                aclrtGetMemInfo(acl::ACL_HBM_MEM, &mut free, &mut total)
            )
        }?;
        Ok((free as u64, total as u64))
    }

    /// What `set_ffts_base_addr` takes on a core: the address of the flags between cores. Versions of CANN differ in
    /// the function that tells.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn sync_address(&self) -> Result<u64, CannError> {
        let cann = self.enter()?;
        if cann.acl().aclrtGetHardwareSyncAddr.is_ok() {
            let mut address = std::ptr::null_mut();
            // SAFETY: a pointer to be written.
            unsafe { call_acl!(cann, aclrtGetHardwareSyncAddr(&mut address)) }?;
            return Ok(address as u64);
        }
        let (mut address, mut len) = (0, 0);
        // SAFETY: two integers to be written.
        unsafe { call_acl!(cann, rtGetC2cCtrlAddr(&mut address, &mut len)) }?;
        Ok(address)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: all that was made in the context holds it, so all of it is gone.
        log(self
            .enter()
            .and_then(|cann| unsafe { call_acl!(cann, aclrtResetDevice(self.device)) }));
    }
}
