//! The memory of all windows of a world: one anonymous file, mapped by every rank.
//!
//! It has no name in any file system, so nothing is left behind however a world ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::sync::AtomicU32;

const PAGE: u64 = 4096;

/// `num_windows` windows in a row, all zero at first.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    map: MmapRaw,
    window_bytes: u64,
    stride: u64,
    num_windows: u32,
}

impl Segment {
    /// New memory for `num_windows` windows of `window_bytes` each.
    pub(crate) fn create(num_windows: u32, window_bytes: u64) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create("megamoe-window", flags)?);
        file.set_len(window_bytes.next_multiple_of(PAGE) * u64::from(num_windows))?;
        // Peers map the whole file: it must never shrink under them.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        Self::map(file, num_windows, window_bytes)
    }

    /// The memory behind a file that another rank created for the same layout.
    pub(crate) fn open(fd: OwnedFd, num_windows: u32, window_bytes: u64) -> io::Result<Self> {
        let file = File::from(fd);
        let want = window_bytes.next_multiple_of(PAGE) * u64::from(num_windows);
        let got = file.metadata()?.len();
        if got != want {
            let message = format!(
                "the world's windows have {got} bytes, this rank's problem needs {want}: \
                 ranks disagree on the problem"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Self::map(file, num_windows, window_bytes)
    }

    fn map(file: File, num_windows: u32, window_bytes: u64) -> io::Result<Self> {
        let map = MmapOptions::new().map_raw(&file)?;
        Ok(Self {
            file,
            map,
            window_bytes,
            stride: window_bytes.next_multiple_of(PAGE),
            num_windows,
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Address of a window in this process.
    pub(crate) fn base(&self, window: u32) -> NonNull<u8> {
        assert!(
            window < self.num_windows,
            "window {window} of {}",
            self.num_windows
        );
        let offset = self.stride * u64::from(window);
        // SAFETY: the mapping has `stride * num_windows` bytes, and `window` is below `num_windows`.
        let base = unsafe { self.map.as_mut_ptr().add(offset as usize) };
        NonNull::new(base).expect("a mapping is never at address 0")
    }

    /// The bytes `offset .. offset + len` of a window, checked.
    fn range(&self, window: u32, offset: u64, len: usize) -> NonNull<u8> {
        let end = offset.checked_add(len as u64);
        assert!(
            end.is_some_and(|end| end <= self.window_bytes),
            "bytes {offset}..+{len} of a window of {}",
            self.window_bytes
        );
        // SAFETY: the range lies in the window, which lies in the mapping.
        unsafe { self.base(window).add(offset as usize) }
    }

    /// Copies into a window. Ordering with readers is the protocol's matter.
    pub(crate) fn write(&self, window: u32, offset: u64, bytes: &[u8]) {
        let target = self.range(window, offset, bytes.len());
        // SAFETY: the target is mapped and can't overlap memory that Rust owns. That no rank reads or
        // writes it meanwhile is what flags and signals arrange (rules 1 to 6 of the protocol).
        unsafe {
            target
                .as_ptr()
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Copies out of a window. Ordering with writers is the protocol's matter.
    pub(crate) fn read(&self, window: u32, offset: u64, bytes: &mut [u8]) {
        let source = self.range(window, offset, bytes.len());
        // SAFETY: as in `write`; any bytes are valid `u8`.
        unsafe {
            source
                .as_ptr()
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
    }

    /// Words of a window that ranks use atomically.
    pub(crate) fn words(&self, window: u32, offset: u64, len: usize) -> &[AtomicU32] {
        assert!(
            offset.is_multiple_of(4),
            "words start at a multiple of 4, not {offset}"
        );
        let words = self.range(window, offset, 4 * len).cast::<AtomicU32>();
        // SAFETY: the range is mapped for as long as `self` lives and aligned (windows start at pages);
        // an `AtomicU32` may be shared with other threads and processes.
        unsafe { std::slice::from_raw_parts(words.as_ptr(), len) }
    }
}
