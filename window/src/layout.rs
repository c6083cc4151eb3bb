//! Regions of a window. Every size and offset of one is computed here and nowhere else.
//!
//! All ranks have the same layout, so the address of a thing at a peer is the peer's base plus the
//! offset at home. Sizes are exact: rows for the routes that the busiest rank can have, not a share of
//! the window.

use std::fmt;

use moe_core::Problem;

/// What becomes visible to a peer at once: a write of one line carries counts and their flag together.
pub const LINE_BYTES: u64 = 512;
/// 32-bit words of a line.
pub const LINE_WORDS: u64 = LINE_BYTES / 4;
/// Counts in a line; its last word is the line's flag.
pub const COUNTS_PER_LINE: u64 = LINE_WORDS - 1;
/// Distance of signals: two never share a cache line.
pub const SIGNAL_STRIDE_BYTES: u64 = 64;
/// Tables of counts, used in turn (rule 5).
pub const COUNT_TABLES: u64 = 2;
/// Signals for layers of one's own.
pub const NUM_USER_SIGNALS: u64 = 64;
/// Bytes that a rank keeps about itself: whether it runs, and which launch it is in.
pub const CONTROL_BYTES: u64 = 4096;

const MIB: u64 = 1 << 20;

/// A part of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Region {
    /// About the rank itself.
    Control,
    /// `[COUNT_TABLES, num_ranks]` rows of lines: the counts of each source rank for all experts.
    Counts,
    /// `[num_ranks]` signals: the producer's packed rows may be read; holds the epoch.
    RowsReady,
    /// `[num_experts]` signals: the expert's returned rows have arrived; holds the epoch.
    Returned,
    /// `[num_ranks]` signals: barriers that the rank has reached.
    Barrier,
    /// `[NUM_USER_SIGNALS]` signals with the meaning that their users give them.
    User,
    /// `[max_routes, packed_row_bytes]`: this rank's tokens, one row per route, ordered by expert.
    PackedRows,
    /// `[max_routes, hidden]` of the output type: rows that came back, numbered like the packed rows.
    ReturnedRows,
}

impl Region {
    /// All regions, in the order of their offsets.
    pub const ALL: [Self; 8] = [
        Self::Control,
        Self::Counts,
        Self::RowsReady,
        Self::Returned,
        Self::Barrier,
        Self::User,
        Self::PackedRows,
        Self::ReturnedRows,
    ];

    /// Name in maps and errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Counts => "counts",
            Self::RowsReady => "rows_ready",
            Self::Returned => "returned",
            Self::Barrier => "barrier",
            Self::User => "user",
            Self::PackedRows => "packed_rows",
            Self::ReturnedRows => "returned_rows",
        }
    }
}

/// Where a region lies: `count` items, `stride` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes from the start of the window.
    pub offset: u64,
    /// Bytes from one item to the next.
    pub stride: u64,
    /// Number of items.
    pub count: u64,
}

impl Extent {
    /// Bytes of the region.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stride * self.count
    }

    /// Offset of an item in the window.
    #[must_use]
    pub fn item(&self, index: u64) -> u64 {
        debug_assert!(index < self.count.max(1), "item {index} of {}", self.count);
        self.offset + self.stride * index
    }
}

/// A window that some memory can't hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowSizeError {
    /// The memory is there, but too small.
    #[error(
        "the window holds {available} bytes, but the problem needs {needed}: \
         set HCCL_BUFFSIZE to at least {needed_mb} (MB)"
    )]
    TooSmall {
        /// Bytes that there are.
        available: u64,
        /// Bytes needed.
        needed: u64,
        /// The same in MB, rounded up.
        needed_mb: u64,
    },
    /// No 64-bit address space holds it.
    #[error("the window of {num_ranks} ranks overflows 64 bits")]
    Overflow {
        /// Number of ranks.
        num_ranks: u32,
    },
}

/// Offsets and sizes of every region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLayout {
    num_ranks: u32,
    num_experts: u32,
    experts_per_rank: u32,
    max_routes: u32,
    extents: [Extent; Region::ALL.len()],
    required_bytes: u64,
}

impl WindowLayout {
    /// The layout for a problem.
    ///
    /// # Errors
    /// [`WindowSizeError::Overflow`] when the windows of all ranks together do not fit 64 bits.
    pub fn new(problem: &Problem) -> Result<Self, WindowSizeError> {
        let num_ranks = problem.num_ranks();
        let ranks = u64::from(num_ranks);
        let num_experts = u64::from(problem.num_experts());
        let max_routes = (0..num_ranks)
            .map(|rank| problem.num_routes(rank))
            .max()
            .unwrap_or(0);
        let count_row_bytes = num_experts.div_ceil(COUNTS_PER_LINE) * LINE_BYTES;
        let returned_row_bytes = (2 * u64::from(problem.hidden())).next_multiple_of(32);
        let sizes = |region| match region {
            Region::Control => (CONTROL_BYTES, 1),
            Region::Counts => (count_row_bytes, COUNT_TABLES * ranks),
            Region::RowsReady | Region::Barrier => (SIGNAL_STRIDE_BYTES, ranks),
            Region::Returned => (SIGNAL_STRIDE_BYTES, num_experts),
            Region::User => (SIGNAL_STRIDE_BYTES, NUM_USER_SIGNALS),
            Region::PackedRows => (problem.packed_row_bytes(), max_routes.into()),
            Region::ReturnedRows => (returned_row_bytes, max_routes.into()),
        };
        let overflow = WindowSizeError::Overflow { num_ranks };
        let mut end = 0u64;
        let mut extents = [Extent {
            offset: 0,
            stride: 0,
            count: 0,
        }; Region::ALL.len()];
        for region in Region::ALL {
            let (stride, count) = sizes(region);
            extents[region as usize] = Extent {
                offset: end,
                stride,
                count,
            };
            end = stride
                .checked_mul(count)
                .and_then(|bytes| end.checked_add(bytes)?.checked_next_multiple_of(LINE_BYTES))
                .ok_or(overflow)?;
        }
        end.checked_next_multiple_of(MIB)
            .and_then(|bytes| bytes.checked_mul(ranks))
            .ok_or(overflow)?;
        Ok(Self {
            num_ranks,
            num_experts: problem.num_experts(),
            experts_per_rank: problem.experts_per_rank(),
            max_routes,
            extents,
            required_bytes: end,
        })
    }

    /// Where a region lies.
    #[must_use]
    pub fn extent(&self, region: Region) -> Extent {
        self.extents[region as usize]
    }

    /// Offset of the counts that `source` publishes in launches with this epoch.
    #[must_use]
    pub fn counts_of(&self, source: u32, epoch: i32) -> u64 {
        let table = u64::from(epoch.unsigned_abs()) % COUNT_TABLES;
        self.extent(Region::Counts)
            .item(table * u64::from(self.num_ranks) + u64::from(source))
    }

    /// The item of a region at an offset of the window.
    #[must_use]
    pub fn item_at(&self, offset: u64) -> Option<(Region, u64)> {
        let holds =
            |extent: &Extent| (extent.offset..extent.offset + extent.bytes()).contains(&offset);
        let region = Region::ALL
            .into_iter()
            .find(|&region| holds(&self.extent(region)))?;
        let extent = self.extent(region);
        Some((region, (offset - extent.offset) / extent.stride))
    }

    /// The rank that writes an item of a region, where that is fixed.
    #[must_use]
    pub fn writer_of(&self, region: Region, index: u64) -> Option<u32> {
        let index = u32::try_from(index).ok()?;
        match region {
            Region::Counts => Some(index % self.num_ranks),
            Region::RowsReady | Region::Barrier => Some(index),
            Region::Returned => Some(self.rank_of_expert(index)),
            Region::Control | Region::User | Region::PackedRows | Region::ReturnedRows => None,
        }
    }

    /// Ranks that share the windows.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        self.num_ranks
    }

    /// Experts of all ranks.
    #[must_use]
    pub fn num_experts(&self) -> u32 {
        self.num_experts
    }

    /// The rank that has an expert.
    #[must_use]
    pub fn rank_of_expert(&self, expert: u32) -> u32 {
        expert / self.experts_per_rank
    }

    /// Rows that a rank's tokens can have.
    #[must_use]
    pub fn max_routes(&self) -> u32 {
        self.max_routes
    }

    /// Bytes of one rank's window.
    #[must_use]
    pub fn required_bytes(&self) -> u64 {
        self.required_bytes
    }

    /// The smallest `HCCL_BUFFSIZE` (in MB) whose window holds it.
    #[must_use]
    pub fn hccl_buffsize_mb(&self) -> u64 {
        self.required_bytes.div_ceil(MIB)
    }

    /// Checks that memory of a fixed size holds the window.
    ///
    /// # Errors
    /// [`WindowSizeError::TooSmall`] says how many MB are needed.
    pub fn check_fits(&self, available: u64) -> Result<(), WindowSizeError> {
        if self.required_bytes <= available {
            return Ok(());
        }
        Err(WindowSizeError::TooSmall {
            available,
            needed: self.required_bytes,
            needed_mb: self.hccl_buffsize_mb(),
        })
    }
}

/// The map of a window: one line per region.
impl fmt::Display for WindowLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>14} {:>14} {:>14} region",
            "offset", "bytes", "stride"
        )?;
        for region in Region::ALL {
            let extent = self.extent(region);
            writeln!(
                f,
                "{:>#14x} {:>14} {:>14} {}",
                extent.offset,
                extent.bytes(),
                extent.stride,
                region.name()
            )?;
        }
        write!(
            f,
            "{:>#14x} in all: HCCL_BUFFSIZE={}",
            self.required_bytes,
            self.hccl_buffsize_mb()
        )
    }
}
