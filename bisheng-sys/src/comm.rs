//! Communicators of HCCL, and the windows that their ranks can see.

use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use bytemuck::Zeroable;

use crate::bindings::hccl::{
    COMM_NAME_MAX_LENGTH, CommResourceTiling, HCCL_ROOT_INFO_BYTES, HcclRootInfo,
    MEGAMOE_RING_REMOTES_OFFSET, MEGAMOE_TOPO_MESH, MeshContext, RingContext, RingRemote,
    RingRemoteWindow,
};
use crate::error::{CannError, call_hccl};
use crate::memory::{fill_address, read_address};
use crate::runtime::{Context, Handle, Runtime, log};
use crate::stream::Stream;

// SAFETY: integers and arrays of them, for which any bytes are a value.
unsafe impl Zeroable for CommResourceTiling {}
// SAFETY: as above.
unsafe impl Zeroable for MeshContext {}
// SAFETY: as above.
unsafe impl Zeroable for RingContext {}
// SAFETY: as above.
unsafe impl Zeroable for RingRemote {}
// SAFETY: as above.
unsafe impl Zeroable for RingRemoteWindow {}

/// What ranks need to know to find each other: one rank makes it and gives it to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootInfo(Vec<u8>);

impl RootInfo {
    /// Bytes of it.
    pub const LEN: usize = HCCL_ROOT_INFO_BYTES as usize;

    /// A new one, by the rank on this context's device.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn new(context: &Context) -> Result<Self, CannError> {
        let cann = context.enter()?;
        let mut info = HcclRootInfo {
            internal: [0; Self::LEN],
        };
        // SAFETY: a struct to be written.
        unsafe { call_hccl!(cann, HcclGetRootInfo(&mut info)) }?;
        Ok(Self(info.internal.map(c_char::cast_unsigned).to_vec()))
    }

    /// One that another rank made.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes.to_vec())
    }

    /// For another rank.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn as_raw(&self) -> HcclRootInfo {
        let mut info = HcclRootInfo {
            internal: [0; Self::LEN],
        };
        for (to, from) in info.internal.iter_mut().zip(&self.0) {
            *to = from.cast_signed();
        }
        info
    }
}

/// Where the windows of all ranks are, as seen from one rank's device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteWindows {
    /// Bytes of each window: what HCCL_BUFFSIZE granted.
    pub bytes: u64,
    /// `[num_ranks]` addresses.
    pub addresses: Vec<u64>,
}

/// A rank's part of a communicator. Destroys it when dropped.
#[derive(Debug)]
pub struct Communicator {
    context: Arc<Context>,
    handle: Handle,
    rank: u32,
    num_ranks: u32,
}

impl Communicator {
    /// Joins `num_ranks` ranks that have the same root info, as `rank`. Every rank does so; none returns before all
    /// have.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn join(
        context: &Arc<Context>,
        num_ranks: u32,
        root: &RootInfo,
        rank: u32,
    ) -> Result<Self, CannError> {
        let cann = context.enter()?;
        let info = root.as_raw();
        let mut raw = std::ptr::null_mut();
        // SAFETY: a struct to be read and a pointer to be written.
        unsafe { call_hccl!(cann, HcclCommInitRootInfo(num_ranks, &info, rank, &mut raw)) }?;
        let communicator = Self {
            context: Arc::clone(context),
            handle: Handle::new("HcclCommInitRootInfo", raw)?,
            rank,
            num_ranks,
        };
        communicator.check_place()?;
        Ok(communicator)
    }

    /// All ranks of a communicator at once, for a process that uses all their devices: rank r on context r.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn all(runtime: &Runtime, contexts: &[Arc<Context>]) -> Result<Vec<Self>, CannError> {
        let mut devices: Vec<i32> = contexts.iter().map(|c| c.device().cast_signed()).collect();
        let mut raw = vec![std::ptr::null_mut(); devices.len()];
        let num_ranks = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let (to_devices, to_raw) = (devices.as_mut_ptr(), raw.as_mut_ptr());
        // SAFETY: both arrays have as many entries as there are ranks.
        unsafe {
            call_hccl!(
                runtime.cann(),
                HcclCommInitAll(num_ranks, to_devices, to_raw)
            )
        }?;
        let owned = (0..).zip(contexts).zip(raw).map(|((rank, context), raw)| {
            Ok(Self {
                context: Arc::clone(context),
                handle: Handle::new("HcclCommInitAll", raw)?,
                rank,
                num_ranks,
            })
        });
        owned.collect()
    }

    /// HCCL and the world agree on who this rank is.
    fn check_place(&self) -> Result<(), CannError> {
        let cann = self.context.enter()?;
        let (mut rank, mut num_ranks) = (0, 0);
        let comm = self.handle.raw();
        // SAFETY: the communicator lives; an integer to be written.
        unsafe { call_hccl!(cann, HcclGetRankId(comm, &mut rank)) }?;
        // SAFETY: as above.
        unsafe { call_hccl!(cann, HcclGetRankSize(comm, &mut num_ranks)) }?;
        if (rank, num_ranks) != (self.rank, self.num_ranks) {
            let what = format!(
                "rank {} of {} became rank {rank} of {num_ranks}",
                self.rank, self.num_ranks
            );
            return Err(CannError::answer("HcclCommInitRootInfo", what));
        }
        Ok(())
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        self.num_ranks
    }

    /// Puts a barrier of all ranks into a stream.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code.
    pub fn barrier(&self, stream: &Stream) -> Result<(), CannError> {
        let cann = self.context.enter()?;
        // SAFETY: communicator and stream live.
        unsafe { call_hccl!(cann, HcclBarrier(self.handle.raw(), stream.as_raw())) }
    }

    /// HCCL's name of the communicator.
    fn name(&self) -> Result<[c_char; COMM_NAME_MAX_LENGTH as usize], CannError> {
        let cann = self.context.enter()?;
        let mut name = [0; COMM_NAME_MAX_LENGTH as usize];
        // SAFETY: HCCL writes at most as many bytes.
        unsafe { call_hccl!(cann, HcclGetCommName(self.handle.raw(), name.as_mut_ptr())) }?;
        name[name.len() - 1] = 0;
        Ok(name)
    }

    /// The windows of all ranks.
    ///
    /// # Errors
    /// [`CannError`] names the call and its code, or what is wrong with HCCL's answer.
    pub fn windows(&self, stream: &Stream) -> Result<RemoteWindows, CannError> {
        const FUNCTION: &str = "HcclAllocComResourceByTiling";
        let cann = self.context.enter()?;
        let group = self.name()?;
        let mut topo = 0;
        // SAFETY: a string that ends with 0, and an integer to be written.
        unsafe { call_hccl!(cann, HcomGetL0TopoTypeEx(group.as_ptr(), &mut topo, 0)) }?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: a string that ends with 0, and a pointer to be written.
        unsafe { call_hccl!(cann, HcomGetCommHandleByGroup(group.as_ptr(), &mut comm)) }?;
        let mut tiling = resource_tiling(&group);
        let mut answer = std::ptr::null_mut();
        let (to_tiling, stream) = ((&raw mut tiling).cast::<c_void>(), stream.as_raw());
        // SAFETY: the handle is HCCL's own; stream and tiling live; a pointer to be written.
        unsafe {
            call_hccl!(
                cann,
                HcclAllocComResourceByTiling(comm, stream, to_tiling, &mut answer)
            )
        }?;
        let address = Handle::new(FUNCTION, answer)?.raw() as u64;
        let windows = if topo == MEGAMOE_TOPO_MESH {
            self.mesh_windows(address)?
        } else {
            self.ring_windows(address)?
        };
        match windows.addresses.iter().position(|&window| window == 0) {
            Some(rank) => Err(CannError::answer(
                FUNCTION,
                format!("rank {rank} has no window"),
            )),
            None => Ok(windows),
        }
    }

    fn mesh_windows(&self, address: u64) -> Result<RemoteWindows, CannError> {
        let context: MeshContext = self.read(address)?;
        self.check_answer(context.rank, context.num_ranks)?;
        let windows = context.window_in.get(..self.num_ranks as usize);
        let addresses = windows.map(<[u64]>::to_vec).unwrap_or_default();
        Ok(RemoteWindows {
            bytes: context.window_bytes,
            addresses,
        })
    }

    fn ring_windows(&self, address: u64) -> Result<RemoteWindows, CannError> {
        let context: RingContext = self.read(address)?;
        self.check_answer(context.rank, context.num_ranks)?;
        let remotes = address + MEGAMOE_RING_REMOTES_OFFSET;
        let window_of = |rank: u32| {
            if rank == self.rank {
                return Ok(context.window_in);
            }
            let place = remotes + u64::from(rank) * size_of::<RingRemote>() as u64;
            let remote: RingRemote = self.read(place)?;
            if remote.device == 0 {
                return Ok(0);
            }
            let window: RingRemoteWindow = self.read(remote.device)?;
            Ok(window.window_in)
        };
        Ok(RemoteWindows {
            bytes: context.window_bytes,
            addresses: (0..self.num_ranks)
                .map(window_of)
                .collect::<Result<_, CannError>>()?,
        })
    }

    /// What HCCL put into device memory is of the layout that it is read as.
    fn check_answer(&self, rank: u32, num_ranks: u32) -> Result<(), CannError> {
        if (rank, num_ranks) == (self.rank, self.num_ranks) && num_ranks <= MAX_RANKS {
            return Ok(());
        }
        let what = format!(
            "its answer is for rank {rank} of {num_ranks}, not {} of {} (at most {MAX_RANKS}): this \
             version of HCCL may have another layout",
            self.rank, self.num_ranks
        );
        Err(CannError::answer("HcclAllocComResourceByTiling", what))
    }

    fn read<T: Zeroable + Copy>(&self, address: u64) -> Result<T, CannError> {
        let mut value = T::zeroed();
        // SAFETY: the value's own bytes; any bytes are a value of these types.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut value).cast::<u8>(), size_of::<T>())
        };
        // SAFETY: HCCL's answer, or what it points to, which nobody writes any more.
        unsafe { read_address(&self.context, address, bytes) }?;
        Ok(value)
    }

    /// Fills the first `bytes` of this rank's window with zeros. No rank uses it meanwhile.
    ///
    /// # Errors
    /// [`CannError::Range`] when the window is smaller; else it names the call and its code.
    pub fn clear_window(&self, windows: &RemoteWindows, bytes: u64) -> Result<(), CannError> {
        if bytes > windows.bytes {
            return Err(CannError::Range {
                offset: 0,
                len: bytes,
                size: windows.bytes,
            });
        }
        let address = windows.addresses[self.rank as usize];
        // SAFETY: this rank's window has so many bytes; that nobody uses it is the caller's promise, and breaking
        // it garbles the ranks' messages, no memory of this process.
        unsafe { fill_address(&self.context, address, bytes, 0) }
    }
}

/// Ranks that an answer for a mesh has room for.
const MAX_RANKS: u32 = 64;

/// The request for windows: version, engine and operation as public examples make it.
fn resource_tiling(group: &[c_char]) -> CommResourceTiling {
    let mut tiling = CommResourceTiling::zeroed();
    tiling.version = 100;
    tiling.num_configs = 1;
    tiling.num_blocks = 48;
    tiling.device_type = 4;
    tiling.config_offset[0] = std::mem::offset_of!(CommResourceTiling, config) as u32;
    tiling.config.op_type = 18;
    tiling.config.engine = 3;
    tiling.config.version = 1;
    tiling.config.group[..group.len()].copy_from_slice(group);
    let algorithm: &CStr = c"BatchWrite=level0:fullmesh";
    for (to, from) in tiling.config.algorithm.iter_mut().zip(algorithm.to_bytes()) {
        *to = from.cast_signed();
    }
    tiling
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // SAFETY: this was the only owner.
        log(self
            .context
            .enter()
            .and_then(|cann| unsafe { call_hccl!(cann, HcclCommDestroy(self.handle.raw())) }));
    }
}
