//! Device memory.

use std::ffi::c_void;
use std::sync::Arc;

use crate::bindings::acl;
use crate::error::{CannError, call_acl};
use crate::runtime::{Context, Handle, log};

/// Memory of a device, aligned to 512 bytes. Its contents are not defined at first.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    handle: Handle,
    len: u64,
}

impl DeviceMemory {
    /// `len` bytes, from huge pages where there are any.
    ///
    /// # Errors
    /// [`CannError`] when there is not enough.
    pub fn new(context: &Arc<Context>, len: u64) -> Result<Self, CannError> {
        let cann = context.enter()?;
        // Nothing is no size to ask for.
        let size = usize::try_from(len.max(1)).unwrap_or(usize::MAX);
        let mut raw = std::ptr::null_mut();
        // SAFETY: a pointer to be written.
        unsafe {
            call_acl!(
                cann,
                aclrtMalloc(&mut raw, size, acl::ACL_MEM_MALLOC_HUGE_FIRST)
            )
        }?;
        Ok(Self {
            context: Arc::clone(context),
            handle: Handle::new("aclrtMalloc", raw)?,
            len,
        })
    }

    /// Address on the device.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.handle.raw() as u64
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the bytes from `offset` on, when there are `len` of them.
    fn at(&self, offset: u64, len: usize) -> Result<u64, CannError> {
        let len = len as u64;
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(self.address() + offset),
            _ => Err(CannError::Range {
                offset,
                len,
                size: self.len,
            }),
        }
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// [`CannError::Range`] when the bytes do not fit; else it names the call and its code.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), CannError> {
        let target = self.at(offset, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        let cann = self.context.enter()?;
        let kind = acl::ACL_MEMCPY_HOST_TO_DEVICE;
        let (source, len) = (bytes.as_ptr().cast::<c_void>(), bytes.len());
        // SAFETY: the target has `len` bytes from there on, and so has the slice.
        unsafe {
            call_acl!(
                cann,
                aclrtMemcpy(target as *mut c_void, len, source, len, kind)
            )
        }
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// As [`DeviceMemory::write`].
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), CannError> {
        let source = self.at(offset, bytes.len())?;
        // SAFETY: this memory has so many bytes from there on.
        unsafe { read_address(&self.context, source, bytes) }
    }
}

/// Copies from an address of the device.
///
/// # Safety
/// The device has so many bytes at the address, and nothing writes them.
pub(crate) unsafe fn read_address(
    context: &Context,
    address: u64,
    bytes: &mut [u8],
) -> Result<(), CannError> {
    if bytes.is_empty() {
        return Ok(());
    }
    let cann = context.enter()?;
    let kind = acl::ACL_MEMCPY_DEVICE_TO_HOST;
    let (target, len) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len());
    // SAFETY: the slice has `len` bytes; the source has them, as the caller promises.
    unsafe {
        call_acl!(
            cann,
            aclrtMemcpy(target, len, address as *const c_void, len, kind)
        )
    }
}

/// Fills bytes of the device with one value.
///
/// # Safety
/// The device has so many bytes at the address, and nothing uses them meanwhile.
pub(crate) unsafe fn fill_address(
    context: &Context,
    address: u64,
    len: u64,
    value: u8,
) -> Result<(), CannError> {
    let cann = context.enter()?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    // SAFETY: as the caller promises.
    unsafe {
        call_acl!(
            cann,
            aclrtMemset(address as *mut c_void, len, value.into(), len)
        )
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: this was the only owner.
        log(self
            .context
            .enter()
            .and_then(|cann| unsafe { call_acl!(cann, aclrtFree(self.handle.raw())) }));
    }
}
