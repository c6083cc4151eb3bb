//! What the library knows: a C library has one state, and so has this.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bisheng_sys::bindings::acl;

use crate::control::Fault;
use crate::group::Comm;
use crate::memory::Memory;
use crate::settings::Settings;
use crate::stream::Stream;

/// A call that fails: what it returns, and what the runtime says to it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn acl(code: impl Into<i64>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }

    /// An argument that is not right.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::acl(acl::ACL_ERROR_RT_PARAM_INVALID, message)
    }

    /// A handle that names nothing.
    pub(crate) fn handle(what: &str, handle: u64) -> Self {
        let message = format!("{handle:#x} is no {what}");
        Self::acl(acl::ACL_ERROR_RT_INVALID_HANDLE, message)
    }
}

/// Everything that is alive, by what it is called.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) settings: Option<Settings>,
    pub(crate) faults: Vec<Fault>,
    /// Calls of each function so far.
    pub(crate) calls: BTreeMap<&'static str, u64>,
    pub(crate) is_initialised: bool,
    /// How often each device was set and not reset.
    pub(crate) devices: BTreeMap<u32, u32>,
    pub(crate) memory: Memory,
    pub(crate) streams: HashMap<u64, Arc<Stream>>,
    /// When each event happened, if it has.
    pub(crate) events: HashMap<u64, Arc<Mutex<Option<Instant>>>>,
    pub(crate) comms: HashMap<u64, Comm>,
    next_handle: u64,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    /// The device of the thread's context.
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
    /// What went wrong last in this thread.
    static RECENT: RefCell<CString> = RefCell::default();
}

/// The state, locked.
pub(crate) struct Locked(MutexGuard<'static, Option<State>>);

impl std::ops::Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("made when it was locked")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("made when it was locked")
    }
}

/// The state, whatever the runtime's.
pub(crate) fn lock() -> Locked {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.get_or_insert_with(|| State {
        faults: Fault::from_env(),
        ..State::default()
    });
    Locked(state)
}

impl State {
    /// Notes a call, which may be one that is to fail.
    pub(crate) fn enter(&mut self, function: &'static str) -> Result<(), Failure> {
        let count = self.calls.entry(function).or_default();
        *count += 1;
        let nth = *count;
        let is_it = |fault: &&Fault| fault.function == function && fault.nth == nth;
        match self.faults.iter().find(is_it) {
            Some(fault) => Err(Failure::acl(
                fault.code,
                format!("call {nth} of {function} was to fail"),
            )),
            None => Ok(()),
        }
    }

    /// The settings of an initialised runtime.
    pub(crate) fn settings(&self) -> Result<&Settings, Failure> {
        let settings = self.settings.as_ref().filter(|_| self.is_initialised);
        settings.ok_or_else(|| Failure::acl(acl::ACL_ERROR_UNINITIALIZE, "aclInit was not called"))
    }

    /// The device of this thread's context.
    pub(crate) fn device(&self) -> Result<u32, Failure> {
        self.settings()?;
        let device = CURRENT
            .get()
            .filter(|device| self.devices.contains_key(device));
        device.ok_or_else(|| {
            Failure::acl(acl::ACL_ERROR_RT_CONTEXT_NULL, "this thread has no context")
        })
    }

    /// A name for something new.
    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 64;
        0x5000_0000 + self.next_handle
    }

    /// What is alive, by kind.
    pub(crate) fn live(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("runtime", u64::from(self.is_initialised)),
            (
                "device",
                self.devices.values().map(|&count| u64::from(count)).sum(),
            ),
            ("memory", self.memory.num_allocations()),
            ("stream", self.streams.len() as u64),
            ("event", self.events.len() as u64),
            ("communicator", self.comms.len() as u64),
        ])
    }
}

/// Makes a device's context that of this thread.
pub(crate) fn set_current(device: Option<u32>) {
    CURRENT.set(device);
}

/// Remembers why a call of this thread failed; what it returns.
pub(crate) fn failed(failure: &Failure) -> i64 {
    RECENT.set(CString::new(failure.message.replace('\0', " ")).unwrap_or_default());
    failure.code
}

/// What went wrong last in this thread. Valid until its next failure.
pub(crate) fn recent() -> *const std::ffi::c_char {
    RECENT.with_borrow(|text| text.as_ptr())
}
