//! A rank's view of all windows, and launches on it.

use std::sync::Arc;
use std::time::Duration;

use moe_core::Gm;

use crate::control::{Control, MAILBOX_BYTES};
use crate::hccl::NpuWindows;
use crate::layout::{LINE_BYTES, Region, WindowLayout};
use crate::map::WindowMap;
use crate::protocol::{self, Compare};
use crate::segment::Segment;
use crate::sync::AtomicU32;
use crate::wait::{self, Awaited, WaitError};

/// The last launch of a window: epochs are int32 and never repeat.
const LAST_EPOCH: i32 = i32::MAX;

/// A request that a window can't carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Bytes outside a region.
    #[error(
        "{bytes} bytes from row {row} of {}: it has {rows} rows of {row_bytes} bytes",
        region.name()
    )]
    OutOfRange {
        /// The region.
        region: Region,
        /// First row.
        row: u64,
        /// Bytes to be moved.
        bytes: u64,
        /// Rows there are.
        rows: u64,
        /// Bytes of each.
        row_bytes: u64,
    },
    /// No rank of that number.
    #[error("rank {rank}: there are {num_ranks} ranks")]
    NoSuchRank {
        /// The number.
        rank: u32,
        /// Ranks of the world.
        num_ranks: u32,
    },
    /// No signal of that number.
    #[error("signal {}[{index}]: there are {count}", region.name())]
    NoSuchSignal {
        /// The region.
        region: Region,
        /// The number.
        index: u64,
        /// Signals there are.
        count: u64,
    },
    /// Counts for another number of experts.
    #[error("{got} counts are published, but there are {want} experts")]
    NumCounts {
        /// Counts given.
        got: usize,
        /// Experts of the world.
        want: usize,
    },
    /// All epochs are used up.
    #[error("the window has run {LAST_EPOCH} launches, as many as it can: start a new world")]
    OutOfEpochs,
    /// The host is asked to look into windows on NPUs.
    #[error("the windows are on NPUs, which only device code reads and writes")]
    OnNpu,
    /// A wait failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Rows that ranks move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Tokens on their way to experts.
    Packed,
    /// Results on their way back.
    Returned,
}

impl Rows {
    fn region(self) -> Region {
        match self {
            Self::Packed => Region::PackedRows,
            Self::Returned => Region::ReturnedRows,
        }
    }
}

/// A signal of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The packed rows of this rank may be read. Holds the epoch.
    RowsReady(u32),
    /// The rows of this global expert have come back. Holds the epoch.
    Returned(u32),
    /// For layers of one's own; values mean what their users agree on.
    User(u32),
}

impl Signal {
    fn place(self) -> (Region, u64) {
        match self {
            Self::RowsReady(rank) => (Region::RowsReady, rank.into()),
            Self::Returned(expert) => (Region::Returned, expert.into()),
            Self::User(index) => (Region::User, index.into()),
        }
    }
}

/// The windows of a world as one rank sees them.
#[derive(Debug)]
pub struct Window {
    segment: Arc<Segment>,
    control: Control,
    layout: WindowLayout,
    rank: u32,
    deadline: Duration,
    epoch: i32,
    barriers: i32,
    /// Where rows, counts and signals are, when they are not in the segment.
    npu: Option<NpuWindows>,
}

impl Window {
    pub(crate) fn new(
        segment: Arc<Segment>,
        layout: &WindowLayout,
        rank: u32,
        deadline: Duration,
    ) -> Self {
        let control = Control::new(Arc::clone(&segment), layout);
        control.arrive(rank);
        Self {
            segment,
            control,
            layout: *layout,
            rank,
            deadline,
            epoch: 0,
            barriers: 0,
            npu: None,
        }
    }

    pub(crate) fn place(&mut self, npu: NpuWindows) {
        self.npu = Some(npu);
    }

    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the world.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        self.layout.num_ranks()
    }

    /// Where things lie.
    #[must_use]
    pub fn layout(&self) -> &WindowLayout {
        &self.layout
    }

    /// How long a wait may last.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Addresses of all windows as this rank's device sees them.
    #[must_use]
    pub fn addresses(&self) -> Vec<u64> {
        if let Some(npu) = &self.npu {
            return npu.addresses().to_vec();
        }
        (0..self.num_ranks())
            .map(|rank| self.segment.base(rank).as_ptr() as u64)
            .collect()
    }

    /// Starts the next launch. Every rank of the world starts the same launches in the same order.
    ///
    /// Two launches on one window can't be in flight together:
    /// ```compile_fail
    /// fn overlap(window: &mut megamoe_window::Window) {
    ///     let first = window.begin().unwrap();
    ///     let second = window.begin().unwrap();
    ///     first.epoch();
    /// }
    /// ```
    ///
    /// # Errors
    /// [`WindowError::OutOfEpochs`] after 2^31 - 1 launches.
    pub fn begin(&mut self) -> Result<Launch<'_>, WindowError> {
        if self.epoch == LAST_EPOCH {
            return Err(WindowError::OutOfEpochs);
        }
        self.epoch += 1;
        self.control.set_epoch(self.rank, self.epoch);
        Ok(Launch { window: self })
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    /// [`WaitError`] names the rank that did not come.
    pub fn barrier(&mut self) -> Result<(), WaitError> {
        self.barriers += 1;
        let mine = u64::from(self.rank);
        for peer in 0..self.num_ranks() {
            self.set(peer, Region::Barrier, mine, self.barriers);
        }
        for peer in 0..self.num_ranks() {
            let place = (Region::Barrier, u64::from(peer));
            self.wait(peer, place, Compare::AtLeast, self.barriers)?;
        }
        Ok(())
    }

    /// Waits, where windows are on NPUs, until no rank's kernel uses this rank's any more (rule 9): its memory goes with it.
    pub(crate) fn leave(&mut self) -> Result<(), WaitError> {
        if self.npu.is_some() {
            self.barrier()
        } else {
            Ok(())
        }
    }

    /// Gives `bytes` of rank `root` to all ranks, which all call it with as many.
    ///
    /// # Errors
    /// [`WaitError`] names the rank that did not come.
    pub fn broadcast(&mut self, root: u32, bytes: &mut [u8]) -> Result<(), WaitError> {
        for part in bytes.chunks_mut(MAILBOX_BYTES) {
            if self.rank == root {
                self.control.post(root, part);
            }
            self.barrier()?;
            self.control.collect(root, part);
            // The next part, or the next broadcast, must not come before all have this one.
            self.barrier()?;
        }
        Ok(())
    }

    /// Why the world has failed, if it has: for who waits by other means than this window's.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let failure = self.control.first_failure()?;
        Some(format!("rank {} failed: {}", failure.rank, failure.reason))
    }

    /// The same question for who outlives this borrow, for example a device whose cores wait.
    pub fn failure_probe(&self) -> impl Fn() -> Option<String> + Send + Sync + use<> {
        let control = self.control.clone();
        move || {
            let failure = control.first_failure()?;
            Some(format!("rank {} failed: {}", failure.rank, failure.reason))
        }
    }

    /// Says what lies at an address of this rank's window and which rank writes it, for reports of who waits by
    /// other means.
    pub fn names(&self) -> impl Fn(u64) -> Option<String> + Send + Sync + use<> {
        let (layout, base) = (self.layout, self.addresses()[self.rank as usize]);
        move |address| {
            let (region, index) = layout.item_at(address.checked_sub(base)?)?;
            let name = format!("{}[{index}]", region.name());
            Some(match layout.writer_of(region, index) {
                Some(writer) => format!("{name}, which rank {writer} writes"),
                None => name,
            })
        }
    }

    fn signal(&self, window: u32, region: Region, index: u64) -> &AtomicU32 {
        let offset = self.layout.extent(region).item(index);
        &self.segment.words(window, offset, 1)[0]
    }

    fn set(&self, peer: u32, region: Region, index: u64, value: i32) {
        let signal = self.signal(peer, region, index);
        protocol::notify_set(signal, value);
        wait::wake(self.control.sleepers(peer), signal);
    }

    fn wait(
        &self,
        peer: u32,
        (region, index): (Region, u64),
        compare: Compare,
        want: i32,
    ) -> Result<i32, WaitError> {
        let awaited = Awaited {
            rank: self.rank,
            peer,
            region,
            index,
            compare,
            want,
        };
        let signal = self.signal(self.rank, region, index);
        wait::wait(&self.control, signal, awaited, self.deadline)
    }

    fn counts_row(&self, window: u32, source: u32) -> &[AtomicU32] {
        let offset = self.layout.counts_of(source, self.epoch);
        let words = self.layout.extent(Region::Counts).stride / 4;
        self.segment.words(window, offset, words as usize)
    }

    /// The host may look into the windows, and there is one of this rank.
    fn check_access(&self, rank: u32) -> Result<(), WindowError> {
        if self.npu.is_some() {
            return Err(WindowError::OnNpu);
        }
        let num_ranks = self.num_ranks();
        if rank < num_ranks {
            Ok(())
        } else {
            Err(WindowError::NoSuchRank { rank, num_ranks })
        }
    }

    fn check_signal(&self, signal: Signal) -> Result<(Region, u64), WindowError> {
        let (region, index) = signal.place();
        let count = self.layout.extent(region).count;
        if index < count {
            Ok((region, index))
        } else {
            Err(WindowError::NoSuchSignal {
                region,
                index,
                count,
            })
        }
    }

    /// Offset of `row` in the window, when `bytes` from there on are in the region.
    fn check_rows(
        &self,
        rank: u32,
        rows: Rows,
        row: u64,
        bytes: usize,
    ) -> Result<u64, WindowError> {
        self.check_access(rank)?;
        let region = rows.region();
        let extent = self.layout.extent(region);
        let bytes = bytes as u64;
        match row.checked_mul(extent.stride) {
            Some(start) if bytes <= extent.bytes().saturating_sub(start) => {
                Ok(extent.offset + start)
            }
            _ => Err(WindowError::OutOfRange {
                region,
                row,
                bytes,
                rows: extent.count,
                row_bytes: extent.stride,
            }),
        }
    }
}

/// A launch on a window: what it publishes carries its epoch, and it sees no flag of another launch.
#[derive(Debug)]
pub struct Launch<'a> {
    window: &'a Window,
}

impl Launch<'_> {
    /// Number of this launch, from 1.
    #[must_use]
    pub fn epoch(&self) -> i32 {
        self.window.epoch
    }

    /// The window it runs on.
    #[must_use]
    pub fn window(&self) -> &Window {
        self.window
    }

    /// What device code needs to take part in this launch; `bases` holds [`Window::addresses`].
    #[must_use]
    pub fn map(&self, bases: Gm<u64>) -> WindowMap {
        WindowMap::new(&self.window.layout, self.window.rank, self.epoch(), bases)
    }

    /// Writes rows of `rank`'s window, from `row` on.
    ///
    /// # Errors
    /// [`WindowError`] when rank or bytes are out of range.
    pub fn put(&self, rank: u32, rows: Rows, row: u64, bytes: &[u8]) -> Result<(), WindowError> {
        let offset = self.window.check_rows(rank, rows, row, bytes.len())?;
        self.window.segment.write(rank, offset, bytes);
        Ok(())
    }

    /// Reads rows of `rank`'s window, from `row` on.
    ///
    /// # Errors
    /// [`WindowError`] when rank or bytes are out of range.
    pub fn get(
        &self,
        rank: u32,
        rows: Rows,
        row: u64,
        bytes: &mut [u8],
    ) -> Result<(), WindowError> {
        let offset = self.window.check_rows(rank, rows, row, bytes.len())?;
        self.window.segment.read(rank, offset, bytes);
        Ok(())
    }

    /// Publishes this rank's counts, `[num_experts]`, to every rank.
    ///
    /// # Errors
    /// [`WindowError::NumCounts`] for another number of counts.
    pub fn publish_counts(&self, counts: &[u32]) -> Result<(), WindowError> {
        let want = self.window.layout.num_experts() as usize;
        if counts.len() != want {
            let got = counts.len();
            return Err(WindowError::NumCounts { got, want });
        }
        self.window.check_access(self.window.rank)?;
        for peer in 0..self.window.num_ranks() {
            let row = self.window.counts_row(peer, self.window.rank);
            protocol::publish_counts(row, counts, self.epoch());
            for flag in protocol::flags(row) {
                wait::wake(self.window.control.sleepers(peer), flag);
            }
        }
        Ok(())
    }

    /// Waits for the counts of `source` and takes them, `[num_experts]`.
    ///
    /// # Errors
    /// [`WindowError::Wait`] names the rank that did not publish.
    pub fn take_counts(&self, source: u32) -> Result<Vec<u32>, WindowError> {
        self.window.check_access(source)?;
        let row = self.window.counts_row(self.window.rank, source);
        let lines = self.window.layout.extent(Region::Counts).stride / LINE_BYTES;
        for (line, flag) in (0..).zip(protocol::flags(row)) {
            let awaited = Awaited {
                rank: self.window.rank,
                peer: source,
                region: Region::Counts,
                index: u64::from(source) * lines + line,
                compare: Compare::Equal,
                want: self.epoch(),
            };
            wait::wait(&self.window.control, flag, awaited, self.window.deadline)?;
        }
        let num_counts = self.window.layout.num_experts() as usize;
        let counts = protocol::take_counts(row, num_counts, self.epoch());
        Ok(counts.expect("every line carries this launch's flag"))
    }

    /// Sets a signal of `rank`'s window. What this rank wrote before is visible to who sees the value.
    ///
    /// # Errors
    /// [`WindowError`] when there is no such rank or signal.
    pub fn notify_set(&self, rank: u32, signal: Signal, value: i32) -> Result<(), WindowError> {
        self.window.check_access(rank)?;
        let (region, index) = self.window.check_signal(signal)?;
        self.window.set(rank, region, index, value);
        Ok(())
    }

    /// Adds to a signal of `rank`'s window, likewise.
    ///
    /// # Errors
    /// [`WindowError`] when there is no such rank or signal.
    pub fn notify_add(&self, rank: u32, signal: Signal, value: i32) -> Result<(), WindowError> {
        self.window.check_access(rank)?;
        let (region, index) = self.window.check_signal(signal)?;
        let word = self.window.signal(rank, region, index);
        protocol::notify_add(word, value);
        wait::wake(self.window.control.sleepers(rank), word);
        Ok(())
    }

    /// Waits for a signal of this rank's own window that `peer` gives; the value seen.
    ///
    /// # Errors
    /// [`WindowError`] when there is no such signal, or `peer` does not give it.
    pub fn wait(
        &self,
        peer: u32,
        signal: Signal,
        compare: Compare,
        want: i32,
    ) -> Result<i32, WindowError> {
        self.window.check_access(peer)?;
        let place = self.window.check_signal(signal)?;
        Ok(self.window.wait(peer, place, compare, want)?)
    }
}
