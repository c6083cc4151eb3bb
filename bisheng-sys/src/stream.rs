//! Streams, which run what is put into them one after the other, and events, which tell when that was.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{CannError, call_acl};
use crate::runtime::{Context, Handle, log};

/// A stream of a device.
#[derive(Debug)]
pub struct Stream {
    context: Arc<Context>,
    handle: Handle,
}

impl Stream {
    /// A new one.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn new(context: &Arc<Context>) -> Result<Self, CannError> {
        let cann = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a pointer to be written.
        unsafe { call_acl!(cann, aclrtCreateStream(&mut raw)) }?;
        Ok(Self {
            context: Arc::clone(context),
            handle: Handle::new("aclrtCreateStream", raw)?,
        })
    }

    /// CANN's name of it, for a function that puts a kernel into it. It is valid as long as the stream.
    #[must_use]
    pub fn as_raw(&self) -> *mut std::ffi::c_void {
        self.handle.raw()
    }

    /// Makes the stream's device that of this thread, for a function that puts a kernel into the stream.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn enter(&self) -> Result<(), CannError> {
        self.context.enter().map(|_| ())
    }

    /// Waits until all that was put into it is done.
    ///
    /// # Errors
    /// [`CannError`]; [`CannError::is_timeout`] when it is not done in time, and it may go on then.
    pub fn synchronize(&self, timeout: Duration) -> Result<(), CannError> {
        let cann = self.context.enter()?;
        let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the stream lives.
        unsafe {
            call_acl!(
                cann,
                aclrtSynchronizeStreamWithTimeout(self.handle.raw(), milliseconds)
            )
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: this was the only owner.
        log(self
            .context
            .enter()
            .and_then(|cann| unsafe { call_acl!(cann, aclrtDestroyStream(self.handle.raw())) }));
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: Handle,
}

impl Event {
    /// A new one, at no point yet.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn new(context: &Arc<Context>) -> Result<Self, CannError> {
        let cann = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a pointer to be written.
        unsafe { call_acl!(cann, aclrtCreateEvent(&mut raw)) }?;
        Ok(Self {
            context: Arc::clone(context),
            handle: Handle::new("aclrtCreateEvent", raw)?,
        })
    }

    /// Puts it behind all that the stream has got so far.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn record(&self, stream: &Stream) -> Result<(), CannError> {
        let cann = self.context.enter()?;
        // SAFETY: event and stream live.
        unsafe {
            call_acl!(
                cann,
                aclrtRecordEvent(self.handle.raw(), stream.handle.raw())
            )
        }
    }

    /// Time from an earlier event on the device's own clock, once both have happened.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn since(&self, start: &Self) -> Result<Duration, CannError> {
        let cann = self.context.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: a float to be written; both events live.
        unsafe {
            call_acl!(
                cann,
                aclrtEventElapsedTime(&mut milliseconds, start.handle.raw(), self.handle.raw())
            )
        }?;
        Duration::try_from_secs_f32(milliseconds / 1e3).map_err(|_| {
            let what = format!("the time is {milliseconds} ms");
            CannError::answer("aclrtEventElapsedTime", what)
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: this was the only owner.
        log(self
            .context
            .enter()
            .and_then(|cann| unsafe { call_acl!(cann, aclrtDestroyEvent(self.handle.raw())) }));
    }
}
