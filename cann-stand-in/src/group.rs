//! What the ranks of a communicator share: a file, mapped by each of them, with the windows of all.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bisheng_sys::bindings::hccl as sys;
use memmap2::{MmapOptions, MmapRaw};

use crate::state::Failure;

const HEADER_BYTES: u64 = 4096;
/// Bytes of a window that are filled with a pattern at first.
const FILLED: usize = 1 << 20;
const PATTERN: u8 = 0xa5;
const LOOK: Duration = Duration::from_micros(200);

/// At the start of the file.
#[repr(C)]
struct Header {
    window_bytes: AtomicU64,
    joined: AtomicU32,
    ready: AtomicU32,
    barrier: AtomicU64,
}

/// The mapped file.
pub(crate) struct Group {
    map: MmapRaw,
    num_ranks: u32,
    window_bytes: u64,
}

impl Group {
    fn header(&self) -> &Header {
        // SAFETY: the file is longer than a header, zero at first, mapped at a page; all of it is atomic.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Address of a rank's window in this process.
    pub(crate) fn window(&self, rank: u32) -> u64 {
        self.map.as_ptr() as u64 + HEADER_BYTES + u64::from(rank) * self.window_bytes
    }

    pub(crate) fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    /// Waits until a counter has reached a value; whether it has.
    fn wait(&self, timeout: Duration, has: impl Fn(&Header) -> bool) -> bool {
        let start = Instant::now();
        while !has(self.header()) {
            if start.elapsed() > timeout {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Meets all ranks: for the `nth` time, from 1.
    pub(crate) fn meet(&self, nth: u64, stop: &AtomicBool) {
        let target = nth * u64::from(self.num_ranks);
        self.header().barrier.fetch_add(1, Ordering::AcqRel);
        while self.header().barrier.load(Ordering::Acquire) < target
            && !stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(LOOK);
        }
    }
}

/// A rank's part of a communicator.
pub(crate) struct Comm {
    pub(crate) group: Arc<Group>,
    pub(crate) name: String,
    pub(crate) rank: u32,
    pub(crate) num_ranks: u32,
    pub(crate) device: u32,
    pub(crate) barriers: u64,
    /// What was answered for windows.
    pub(crate) answers: Vec<u64>,
}

/// A new meeting point.
pub(crate) fn create() -> std::io::Result<PathBuf> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("cann-stand-in-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    Ok(path)
}

fn failure(code: u32, message: impl Into<String>) -> Failure {
    Failure::acl(code, message)
}

/// Joins the ranks that meet at a path. Returns once all have.
pub(crate) fn join(
    path: &Path,
    rank: u32,
    num_ranks: u32,
    window_bytes: u64,
    timeout: Duration,
) -> Result<Arc<Group>, Failure> {
    let group = open(path, num_ranks, window_bytes)?;
    fill_window(&group, rank);
    let header = group.header();
    let before =
        header
            .window_bytes
            .compare_exchange(0, window_bytes, Ordering::AcqRel, Ordering::Acquire);
    if before.is_err_and(|other| other != window_bytes) {
        return Err(failure(sys::HCCL_E_PARA, "ranks differ in HCCL_BUFFSIZE"));
    }
    header.joined.fetch_add(1, Ordering::AcqRel);
    if !group.wait(timeout, |header| {
        header.joined.load(Ordering::Acquire) >= num_ranks
    }) {
        let joined = header.joined.load(Ordering::Relaxed);
        let _ = std::fs::remove_file(path);
        let message =
            format!("rank {rank} waited {timeout:?}, but only {joined} of {num_ranks} came");
        return Err(failure(sys::HCCL_E_TIMEOUT, message));
    }
    if header.ready.fetch_add(1, Ordering::AcqRel) + 1 == num_ranks {
        // Whoever is last; nobody needs the name any more.
        let _ = std::fs::remove_file(path);
    }
    Ok(group)
}

fn open(path: &Path, num_ranks: u32, window_bytes: u64) -> Result<Arc<Group>, Failure> {
    let io = |error: std::io::Error| {
        failure(
            sys::HCCL_E_TCP_CONNECT,
            format!("{}: {error}", path.display()),
        )
    };
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(io)?;
    // The same for every rank, and pages take no room before they are used.
    file.set_len(HEADER_BYTES + u64::from(num_ranks) * window_bytes)
        .map_err(io)?;
    let map = MmapOptions::new().map_raw(&file).map_err(io)?;
    Ok(Arc::new(Group {
        map,
        num_ranks,
        window_bytes,
    }))
}

/// Windows do not start as zeros: whoever needs that must see to it.
fn fill_window(group: &Group, rank: u32) {
    let len = FILLED.min(group.window_bytes as usize);
    // SAFETY: the window is this rank's, and has so many bytes; nobody uses it before all have joined.
    unsafe { (group.window(rank) as *mut u8).write_bytes(PATTERN, len) };
}
