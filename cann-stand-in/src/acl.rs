//! The runtime's functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bisheng_sys::bindings::acl as sys;
use bisheng_sys::bindings::acl::{
    AclApi, aclError, aclrtContext, aclrtDevAttr, aclrtEvent, aclrtMemAttr, aclrtMemMallocPolicy,
    aclrtMemcpyKind, aclrtStream,
};

use crate::control::Report;
use crate::settings::Settings;
use crate::state::{self, Failure, Locked};
use crate::stream::{Stream, Work};

/// What launches pass on to `set_ffts_base_addr`.
pub(crate) const SYNC_ADDRESS: u64 = 0xff75_0000;

/// Contexts are named after their devices.
const CONTEXT_BASE: u64 = 0xc0_0000;

/// Does what a function is for; what it returns.
fn call(function: &'static str, body: impl FnOnce(&mut Locked) -> Result<(), Failure>) -> aclError {
    let mut state = state::lock();
    let result = state.enter(function).and_then(|()| body(&mut state));
    match result {
        Ok(()) => sys::ACL_SUCCESS,
        Err(failure) => state::failed(&failure) as aclError,
    }
}

/// Writes an answer.
///
/// # Safety
/// `target` is null or can be written.
unsafe fn answer<T>(target: *mut T, value: T) -> Result<(), Failure> {
    if target.is_null() {
        return Err(Failure::argument("a null pointer for an answer"));
    }
    // SAFETY: as the caller promises.
    unsafe { target.write(value) };
    Ok(())
}

fn device_number(state: &Locked, device: i32) -> Result<u32, Failure> {
    let num_npus = state.settings()?.num_npus;
    let number = u32::try_from(device)
        .ok()
        .filter(|number| *number < num_npus);
    number.ok_or_else(|| {
        let message = format!("there is no device {device}: there are {num_npus}");
        Failure::acl(sys::ACL_ERROR_RT_INVALID_DEVICEID, message)
    })
}

fn stream_of(state: &Locked, stream: aclrtStream) -> Result<Arc<Stream>, Failure> {
    state.device()?;
    let handle = stream as u64;
    let stream = state.streams.get(&handle).cloned();
    stream.ok_or_else(|| Failure::handle("stream", handle))
}

/// A stream, for a function that launches.
pub(crate) fn stream_for_launch(stream: *mut c_void) -> Result<Arc<Stream>, Failure> {
    stream_of(&state::lock(), stream)
}

/// Declares functions of the runtime, each with its counted, faultable body.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $ty:ty),*) |$state:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As CANN's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "CANN's names")]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> aclError {
                call(stringify!($name), |$state| $body)
            }
        )*

        /// The functions have the types of the bindings.
        #[allow(dead_code, reason = "that it compiles is the check")]
        fn typed_as_bound(api: &mut AclApi) {
            $(api.$name = Ok($name);)*
            api.aclGetRecentErrMsg = Ok(aclGetRecentErrMsg);
            api.aclrtGetSocName = Ok(aclrtGetSocName);
            api.aclrtSynchronizeStreamWithTimeout = Ok(aclrtSynchronizeStreamWithTimeout);
            api.rtGetC2cCtrlAddr = Ok(rtGetC2cCtrlAddr);
        }
    };
}

functions! {
    /// Starts the runtime.
    fn aclInit(config: *const c_char) |state| {
        if !config.is_null() {
            // SAFETY: a string, as the caller promises.
            let config = unsafe { CStr::from_ptr(config) };
            return Err(Failure::argument(format!("a configuration {config:?} is not supported")));
        }
        if state.is_initialised {
            return Err(Failure::acl(sys::ACL_ERROR_REPEAT_INITIALIZE, "the runtime is initialised"));
        }
        state.settings = Some(Settings::from_env());
        state.is_initialised = true;
        Ok(())
    }

    /// Ends it.
    fn aclFinalize() |state| {
        let report = state.settings()?.report.clone();
        state.is_initialised = false;
        if let Some(folder) = report {
            Report::of(state).write(&folder);
        }
        Ok(())
    }

    /// Version of the runtime.
    fn aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32) |state| {
        state.settings()?;
        // SAFETY: as the caller promises.
        unsafe { answer(major, 9).and_then(|()| answer(minor, 0)).and_then(|()| answer(patch, 0)) }
    }

    /// Number of NPUs.
    fn aclrtGetDeviceCount(count: *mut u32) |state| {
        // SAFETY: as the caller promises.
        unsafe { answer(count, state.settings()?.num_npus) }
    }

    /// A property of an NPU.
    fn aclrtGetDeviceInfo(device: u32, attribute: aclrtDevAttr, value: *mut i64) |state| {
        device_number(state, device.cast_signed())?;
        let soc = &state.settings()?.soc;
        let number = match attribute {
            sys::ACL_DEV_ATTR_CUBE_CORE_NUM => soc.num_aic,
            sys::ACL_DEV_ATTR_VECTOR_CORE_NUM => soc.num_aiv(),
            _ => return Err(Failure::argument(format!("attribute {attribute} is not known"))),
        };
        // SAFETY: as the caller promises.
        unsafe { answer(value, number.into()) }
    }

    /// Takes an NPU into use.
    fn aclrtSetDevice(device: i32) |state| {
        let device = device_number(state, device)?;
        *state.devices.entry(device).or_default() += 1;
        state::set_current(Some(device));
        Ok(())
    }

    /// Gives it back.
    fn aclrtResetDevice(device: i32) |state| {
        let device = device_number(state, device)?;
        let uses = state.devices.get_mut(&device);
        let uses = uses.ok_or_else(|| Failure::argument(format!("device {device} is not set")))?;
        *uses -= 1;
        if *uses == 0 {
            state.devices.remove(&device);
        }
        Ok(())
    }

    /// The thread's context.
    fn aclrtGetCurrentContext(context: *mut aclrtContext) |state| {
        let handle = CONTEXT_BASE + u64::from(state.device()?);
        // SAFETY: as the caller promises.
        unsafe { answer(context, handle as aclrtContext) }
    }

    /// Makes a context the thread's.
    fn aclrtSetCurrentContext(context: aclrtContext) |state| {
        state.settings()?;
        let handle = context as u64;
        let device = handle.checked_sub(CONTEXT_BASE).and_then(|device| u32::try_from(device).ok());
        let device = device.filter(|device| state.devices.contains_key(device));
        let device = device.ok_or_else(|| Failure::handle("context", handle))?;
        state::set_current(Some(device));
        Ok(())
    }

    /// A new stream.
    fn aclrtCreateStream(stream: *mut aclrtStream) |state| {
        let device = state.device()?;
        let new = Stream::new(&state.settings()?.soc, device)?;
        let handle = state.new_handle();
        state.streams.insert(handle, new);
        // SAFETY: as the caller promises.
        unsafe { answer(stream, handle as aclrtStream) }
    }

    /// Ends a stream.
    fn aclrtDestroyStream(stream: aclrtStream) |state| {
        let destroyed = stream_of(state, stream)?;
        state.streams.remove(&(stream as u64));
        destroyed.destroy();
        Ok(())
    }

    /// A new event.
    fn aclrtCreateEvent(event: *mut aclrtEvent) |state| {
        state.device()?;
        let handle = state.new_handle();
        state.events.insert(handle, Arc::new(Mutex::new(None)));
        // SAFETY: as the caller promises.
        unsafe { answer(event, handle as aclrtEvent) }
    }

    /// Ends an event.
    fn aclrtDestroyEvent(event: aclrtEvent) |state| {
        state.device()?;
        let handle = event as u64;
        let removed = state.events.remove(&handle);
        removed.map(|_| ()).ok_or_else(|| Failure::handle("event", handle))
    }

    /// Puts an event into a stream.
    fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) |state| {
        let stream = stream_of(state, stream)?;
        let handle = event as u64;
        let event = state.events.get(&handle).ok_or_else(|| Failure::handle("event", handle))?;
        *event.lock().unwrap_or_else(PoisonError::into_inner) = None;
        stream.give(Work::Record(Arc::clone(event)));
        Ok(())
    }

    /// Time between two events that have happened.
    fn aclrtEventElapsedTime(milliseconds: *mut f32, start: aclrtEvent, end: aclrtEvent) |state| {
        let time = |event: aclrtEvent| {
            let event = state.events.get(&(event as u64));
            let event = event.ok_or_else(|| Failure::argument("no such event"))?;
            let time = *event.lock().unwrap_or_else(PoisonError::into_inner);
            time.ok_or_else(|| {
                Failure::acl(sys::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event has not happened")
            })
        };
        let elapsed = time(end)?.saturating_duration_since(time(start)?);
        // SAFETY: as the caller promises.
        unsafe { answer(milliseconds, elapsed.as_secs_f32() * 1e3) }
    }

    /// New memory.
    fn aclrtMalloc(memory: *mut *mut c_void, size: usize, _policy: aclrtMemMallocPolicy) |state| {
        state.device()?;
        if size == 0 {
            return Err(Failure::argument("an allocation of 0 bytes"));
        }
        let address = state.memory.alloc(size).ok_or_else(|| {
            let message = format!("{size} bytes are not there");
            Failure::acl(sys::ACL_ERROR_RT_MEMORY_ALLOCATION, message)
        })?;
        // SAFETY: as the caller promises.
        unsafe { answer(memory, address as *mut c_void) }
    }

    /// Gives memory back.
    fn aclrtFree(memory: *mut c_void) |state| {
        state.device()?;
        state.memory.free(memory as u64)
    }

    /// Copies to or from device memory.
    fn aclrtMemcpy(
        target: *mut c_void, target_len: usize, source: *const c_void, len: usize, kind: aclrtMemcpyKind
    ) |state| {
        state.device()?;
        if len > target_len {
            return Err(Failure::argument(format!("{len} bytes to {target_len}")));
        }
        let device_side = match kind {
            sys::ACL_MEMCPY_HOST_TO_DEVICE => target as u64,
            sys::ACL_MEMCPY_DEVICE_TO_HOST => source as u64,
            _ => return Err(Failure::argument(format!("a copy of kind {kind} is not supported"))),
        };
        state.memory.check(device_side, len as u64)?;
        // SAFETY: the device's side is there; the host's is, as the caller promises.
        unsafe { target.cast::<u8>().copy_from_nonoverlapping(source.cast(), len) };
        Ok(())
    }

    /// Fills device memory.
    fn aclrtMemset(memory: *mut c_void, max: usize, value: i32, len: usize) |state| {
        state.device()?;
        if len > max {
            return Err(Failure::argument(format!("{len} bytes of {max}")));
        }
        state.memory.check(memory as u64, len as u64)?;
        // SAFETY: the bytes are there.
        unsafe { memory.cast::<u8>().write_bytes(value as u8, len) };
        Ok(())
    }

    /// Device memory: free, and in all.
    fn aclrtGetMemInfo(_kind: aclrtMemAttr, free: *mut usize, total: *mut usize) |state| {
        state.device()?;
        // SAFETY: as the caller promises.
        unsafe { answer(free, 60 << 30).and_then(|()| answer(total, 64 << 30)) }
    }

    /// Address of the flags between cores.
    fn aclrtGetHardwareSyncAddr(address: *mut *mut c_void) |state| {
        state.device()?;
        // SAFETY: as the caller promises.
        unsafe { answer(address, SYNC_ADDRESS as *mut c_void) }
    }
}

/// Address of the flags between cores, as older versions tell it.
///
/// # Safety
/// As CANN's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "CANN's names")]
pub unsafe extern "C" fn rtGetC2cCtrlAddr(address: *mut u64, len: *mut u32) -> i32 {
    call("rtGetC2cCtrlAddr", |state| {
        state.device()?;
        // SAFETY: as the caller promises.
        unsafe { answer(address, SYNC_ADDRESS).and_then(|()| answer(len, 8)) }
    })
}

/// What went wrong last in this thread.
///
/// # Safety
/// The text is valid until the thread's next call.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "CANN's names")]
pub unsafe extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    state::recent()
}

/// Name of the SoC; null when it is to fail.
///
/// # Safety
/// The text is valid until the thread's next call.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "CANN's names")]
pub unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    let mut name = None;
    let code = call("aclrtGetSocName", |state| {
        name = Some(state.settings()?.soc.name.clone());
        Ok(())
    });
    if code != sys::ACL_SUCCESS {
        return std::ptr::null();
    }
    // The message of the last failure is free to be overwritten: there was none.
    let name = Failure::acl(0, name.unwrap_or_default());
    state::failed(&name);
    state::recent()
}

/// Waits until a stream is done, without holding up other threads.
///
/// # Safety
/// As CANN's function of this name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "CANN's names")]
pub unsafe extern "C" fn aclrtSynchronizeStreamWithTimeout(
    stream: aclrtStream,
    milliseconds: c_int,
) -> aclError {
    let mut found = None;
    let code = call("aclrtSynchronizeStreamWithTimeout", |state| {
        found = Some(stream_of(state, stream)?);
        Ok(())
    });
    let timeout = u64::try_from(milliseconds).ok().map(Duration::from_millis);
    match found.map(|stream| stream.synchronize(timeout)) {
        Some(Err(failure)) => state::failed(&failure) as aclError,
        _ => code,
    }
}
