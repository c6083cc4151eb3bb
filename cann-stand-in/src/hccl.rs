//! HCCL's functions.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use bisheng_sys::bindings::hccl as sys;
use bisheng_sys::bindings::hccl::{
    CommResourceTiling, HcclApi, HcclComm, HcclResult, HcclRootInfo, MeshContext, RingContext,
    RingRemote, RingRemoteWindow, aclrtStream,
};

use crate::acl::stream_for_launch;
use crate::group::{self, Comm, Group};
use crate::state::{self, Failure, Locked};
use crate::stream::Work;

/// Does what a function is for; what it returns.
fn call(function: &'static str, body: impl FnOnce(Locked) -> Result<(), Failure>) -> HcclResult {
    let mut state = state::lock();
    let result = match state.enter(function) {
        Ok(()) => body(state),
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => sys::HCCL_SUCCESS,
        Err(failure) => {
            let code = state::failed(&failure);
            // The runtime's codes are not HCCL's.
            u32::try_from(code)
                .ok()
                .filter(|code| *code < sys::HCCL_E_RESERVED)
                .unwrap_or(sys::HCCL_E_RUNTIME)
        }
    }
}

fn pointer(what: &str) -> Failure {
    Failure::acl(sys::HCCL_E_PTR, format!("a null pointer for {what}"))
}

/// Writes an answer.
///
/// # Safety
/// `target` is null or can be written.
unsafe fn answer<T>(target: *mut T, value: T) -> Result<(), Failure> {
    if target.is_null() {
        return Err(pointer("an answer"));
    }
    // SAFETY: as the caller promises.
    unsafe { target.write(value) };
    Ok(())
}

fn comm_of(state: &mut Locked, comm: HcclComm) -> Result<&mut Comm, Failure> {
    let handle = comm as u64;
    let comm = state.comms.get_mut(&handle);
    comm.ok_or_else(|| Failure::acl(sys::HCCL_E_PARA, format!("{handle:#x} is no communicator")))
}

/// The communicator of a name on this thread's device.
fn comm_of_group(state: &Locked, group: *const c_char) -> Result<u64, Failure> {
    if group.is_null() {
        return Err(pointer("a group"));
    }
    let device = state.device()?;
    // SAFETY: a string, as the caller promises.
    let name = unsafe { CStr::from_ptr(group) }.to_string_lossy();
    let found = state
        .comms
        .iter()
        .find(|(_, comm)| comm.name == name && comm.device == device);
    let handle = found.map(|(handle, _)| *handle);
    handle.ok_or_else(|| Failure::acl(sys::HCCL_E_NOT_FOUND, format!("there is no group {name}")))
}

/// Where ranks with this root info meet.
fn meeting_point(info: &HcclRootInfo) -> PathBuf {
    let bytes: Vec<u8> = info
        .internal
        .iter()
        .map(|&byte| byte.cast_unsigned())
        .collect();
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    PathBuf::from(OsStr::from_bytes(&bytes[..end]))
}

fn add_comm(
    mut state: Locked,
    group: Arc<Group>,
    comm: Comm,
    target: *mut HcclComm,
) -> Result<(), Failure> {
    for rank in 0..comm.num_ranks {
        state
            .memory
            .add_window(group.window(rank), group.window_bytes());
    }
    let handle = state.new_handle();
    state.comms.insert(handle, comm);
    // SAFETY: as the caller of HCCL promises.
    unsafe { answer(target, handle as HcclComm) }
}

fn new_comm(group: &Arc<Group>, path: &std::path::Path, place: (u32, u32), device: u32) -> Comm {
    Comm {
        group: Arc::clone(group),
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        rank: place.0,
        num_ranks: place.1,
        device,
        barriers: 0,
        answers: Vec::new(),
    }
}

/// Declares functions of HCCL, each with its counted, faultable body.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $ty:ty),*) |$state:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As HCCL's function of this name.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, unused_mut, reason = "HCCL's names; not every function changes the state")]
            pub unsafe extern "C" fn $name($($argument: $ty),*) -> HcclResult {
                call(stringify!($name), |mut $state| $body)
            }
        )*

        /// The functions have the types of the bindings.
        #[allow(dead_code, reason = "that it compiles is the check")]
        fn typed_as_bound(api: &mut HcclApi) {
            $(api.$name = Ok($name);)*
            api.HcclGetErrorString = Ok(HcclGetErrorString);
        }
    };
}

functions! {
    /// A new meeting point for ranks.
    fn HcclGetRootInfo(info: *mut HcclRootInfo) |state| {
        state.device()?;
        let path = group::create().map_err(|error| Failure::acl(sys::HCCL_E_SYSCALL, error.to_string()))?;
        let mut root = HcclRootInfo { internal: [0; sys::HCCL_ROOT_INFO_BYTES as usize] };
        for (to, from) in root.internal.iter_mut().zip(path.as_os_str().as_bytes()) {
            *to = from.cast_signed();
        }
        // SAFETY: as the caller promises.
        unsafe { answer(info, root) }
    }

    /// Joins ranks.
    fn HcclCommInitRootInfo(num_ranks: u32, info: *const HcclRootInfo, rank: u32, comm: *mut HcclComm) |state| {
        let device = state.device()?;
        let settings = state.settings()?.clone();
        if info.is_null() {
            return Err(pointer("root info"));
        }
        if rank >= num_ranks {
            return Err(Failure::acl(sys::HCCL_E_PARA, format!("rank {rank} of {num_ranks}")));
        }
        // SAFETY: as the caller promises.
        let path = meeting_point(unsafe { &*info });
        // Others of this process may be needed to come.
        drop(state);
        let group = group::join(&path, rank, num_ranks, settings.window_bytes, settings.connect_timeout)?;
        let new = new_comm(&group, &path, (rank, num_ranks), device);
        add_comm(state::lock(), group, new, comm)
    }

    /// All ranks of a communicator.
    fn HcclCommInitAll(num_ranks: u32, devices: *mut i32, comms: *mut HcclComm) |state| {
        let settings = state.settings()?.clone();
        if devices.is_null() || comms.is_null() || num_ranks == 0 {
            return Err(pointer("devices or communicators"));
        }
        drop(state);
        let path = group::create().map_err(|error| Failure::acl(sys::HCCL_E_SYSCALL, error.to_string()))?;
        let join = |rank| group::join(&path, rank, num_ranks, settings.window_bytes, settings.connect_timeout);
        let groups: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..num_ranks).map(|rank| scope.spawn(move || join(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("joining does not panic")).collect()
        });
        for (rank, group) in (0..).zip(groups) {
            // SAFETY: both arrays have an entry for each rank, as the caller promises.
            let (device, target) = unsafe { (*devices.add(rank as usize), comms.add(rank as usize)) };
            let group = group?;
            let new = new_comm(&group, &path, (rank, num_ranks), device.cast_unsigned());
            add_comm(state::lock(), group, new, target)?;
        }
        Ok(())
    }

    /// Name of a communicator.
    fn HcclGetCommName(comm: HcclComm, name: *mut c_char) |state| {
        let own = comm_of(&mut state, comm)?.name.clone();
        if name.is_null() {
            return Err(pointer("a name"));
        }
        let bytes = own.as_bytes();
        // SAFETY: there is room for the longest name, as the caller promises.
        unsafe {
            name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            name.add(bytes.len()).write(0);
        }
        Ok(())
    }

    /// A communicator's rank.
    fn HcclGetRankId(comm: HcclComm, rank: *mut u32) |state| {
        let own = comm_of(&mut state, comm)?.rank;
        // SAFETY: as the caller promises.
        unsafe { answer(rank, own) }
    }

    /// A communicator's number of ranks.
    fn HcclGetRankSize(comm: HcclComm, num_ranks: *mut u32) |state| {
        let own = comm_of(&mut state, comm)?.num_ranks;
        // SAFETY: as the caller promises.
        unsafe { answer(num_ranks, own) }
    }

    /// Puts a barrier of all ranks into a stream.
    fn HcclBarrier(comm: HcclComm, stream: aclrtStream) |state| {
        let comm = comm_of(&mut state, comm)?;
        comm.barriers += 1;
        let (nth, group) = (comm.barriers, Arc::clone(&comm.group));
        drop(state);
        stream_for_launch(stream)?.give(Work::Barrier(Box::new(move |stop| group.meet(nth, stop))));
        Ok(())
    }

    /// Ends a rank's part of a communicator.
    fn HcclCommDestroy(comm: HcclComm) |state| {
        comm_of(&mut state, comm)?;
        if let Some(comm) = state.comms.remove(&(comm as u64)) {
            for rank in 0..comm.num_ranks {
                state.memory.remove_window(comm.group.window(rank));
            }
            for address in comm.answers {
                state.memory.free_internal(address);
            }
        }
        Ok(())
    }

    /// How the ranks of a group are connected.
    fn HcomGetL0TopoTypeEx(group: *const c_char, topo: *mut u32, _flag: u32) |state| {
        comm_of_group(&state, group)?;
        let mesh = u32::from(state.settings()?.is_mesh) * sys::MEGAMOE_TOPO_MESH;
        // SAFETY: as the caller promises.
        unsafe { answer(topo, mesh) }
    }

    /// A group's communicator.
    fn HcomGetCommHandleByGroup(group: *const c_char, comm: *mut HcclComm) |state| {
        let handle = comm_of_group(&state, group)?;
        // SAFETY: as the caller promises.
        unsafe { answer(comm, handle as HcclComm) }
    }

    /// The windows of all ranks.
    fn HcclAllocComResourceByTiling(
        comm: HcclComm, _stream: *mut c_void, tiling: *mut c_void, context: *mut *mut c_void
    ) |state| {
        let is_mesh = state.settings()?.is_mesh;
        let own = comm_of(&mut state, comm)?;
        if tiling.is_null() {
            return Err(pointer("the tiling"));
        }
        // SAFETY: as the caller promises.
        check_tiling(unsafe { &*tiling.cast::<CommResourceTiling>() }, &own.name)?;
        let (group, rank) = (Arc::clone(&own.group), own.rank);
        let pieces = if is_mesh { mesh(&group, rank, own.num_ranks) } else { ring(&group, rank, own.num_ranks) };
        let address = store(&mut state, pieces, comm as u64)?;
        // SAFETY: as the caller promises.
        unsafe { answer(context, address as *mut c_void) }
    }
}

/// What the published kernel's host asks for, and nothing else.
fn check_tiling(tiling: &CommResourceTiling, group: &str) -> Result<(), Failure> {
    let text = |chars: &[c_char]| {
        let bytes = chars
            .iter()
            .map(|&c| c.cast_unsigned())
            .take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    };
    let config = &tiling.config;
    let numbers = (
        tiling.version,
        tiling.num_configs,
        tiling.num_blocks,
        tiling.device_type,
    );
    let operation = (config.op_type, config.engine, config.version);
    let is_right = numbers == (100, 1, 48, 4)
        && operation == (18, 3, 1)
        && tiling.config_offset[0] as usize == std::mem::offset_of!(CommResourceTiling, config)
        && text(&config.group) == group
        && text(&config.algorithm) == "BatchWrite=level0:fullmesh";
    if is_right {
        return Ok(());
    }
    Err(Failure::acl(
        sys::HCCL_E_PARA,
        format!("a tiling that is not known: {tiling:?}"),
    ))
}

/// Bytes of a value without padding between its members.
fn bytes_of<T: Copy>(value: &T) -> Vec<u8> {
    // SAFETY: the structs of HCCL's answers are integers without padding between them; the slice ends with the call.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
        .to_vec()
}

/// An answer: its bytes, and what it points to, each with the offset of its pointer.
struct Answer {
    bytes: Vec<u8>,
    pointed: Vec<(usize, Vec<u8>)>,
}

fn mesh(group: &Group, rank: u32, num_ranks: u32) -> Answer {
    let mut window_in = [0; 64];
    for (peer, window) in (0..num_ranks).zip(&mut window_in) {
        *window = group.window(peer);
    }
    let context = MeshContext {
        workspace: 0,
        workspace_bytes: 0,
        rank,
        num_ranks,
        window_bytes: group.window_bytes(),
        window_in,
        window_out: window_in,
    };
    Answer {
        bytes: bytes_of(&context),
        pointed: Vec::new(),
    }
}

fn ring(group: &Group, rank: u32, num_ranks: u32) -> Answer {
    let context = RingContext {
        workspace: 0,
        workspace_bytes: 0,
        rank,
        num_ranks,
        window_bytes: group.window_bytes(),
        window_in: group.window(rank),
        window_out: group.window(rank),
    };
    let remotes = sys::MEGAMOE_RING_REMOTES_OFFSET as usize;
    let mut bytes = bytes_of(&context);
    bytes.resize(remotes + num_ranks as usize * size_of::<RingRemote>(), 0);
    let remote = |peer: u32| {
        let place = remotes + peer as usize * size_of::<RingRemote>();
        let window = RingRemoteWindow {
            rank: peer,
            world_rank: peer,
            window_in: group.window(peer),
            window_out: group.window(peer),
        };
        (
            place + std::mem::offset_of!(RingRemote, device),
            bytes_of(&window),
        )
    };
    let pointed = (0..num_ranks)
        .filter(|&peer| peer != rank)
        .map(remote)
        .collect();
    Answer { bytes, pointed }
}

/// Puts an answer into device memory that the communicator owns; its address.
fn store(state: &mut Locked, answer: Answer, comm: u64) -> Result<u64, Failure> {
    let memory = || Failure::acl(sys::HCCL_E_MEMORY, "no memory for the answer");
    let mut bytes = answer.bytes;
    let mut owned = Vec::new();
    for (offset, pointed) in answer.pointed {
        let address = state.memory.alloc_internal(&pointed).ok_or_else(memory)?;
        bytes[offset..offset + 8].copy_from_slice(&address.to_le_bytes());
        owned.push(address);
    }
    let address = state.memory.alloc_internal(&bytes).ok_or_else(memory)?;
    owned.push(address);
    if let Some(comm) = state.comms.get_mut(&comm) {
        comm.answers.extend(owned);
    }
    Ok(address)
}

/// A text for a code.
///
/// # Safety
/// Always safe.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "HCCL's names")]
pub unsafe extern "C" fn HcclGetErrorString(_code: HcclResult) -> *const c_char {
    state::recent()
}
