//! What device code knows of the windows: the layout as plain data, and where each window lies.

use bytemuck::{Pod, Zeroable};
use moe_core::Gm;

use crate::layout::{self, Region, WindowLayout};

/// Layout and addresses, read by device code. One per rank; the host renews `epoch` before a launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct WindowMap {
    /// `[num_ranks]` address of each rank's window.
    pub bases: Gm<u64>,
    /// Offset of the packed rows.
    pub packed_rows: u64,
    /// Bytes of a packed row.
    pub packed_row_bytes: u64,
    /// Offset of the returned rows.
    pub returned_rows: u64,
    /// Bytes of a returned row.
    pub returned_row_bytes: u64,
    /// Offset of the table of counts that this launch uses.
    pub counts: u64,
    /// Bytes of one source rank's counts.
    pub count_row_bytes: u64,
    /// Offset of the signals "my packed rows may be read", by producer.
    pub rows_ready: u64,
    /// Offset of the signals "this expert's rows have been returned", by global expert.
    pub returned: u64,
    /// This rank.
    pub rank: u32,
    /// Ranks of the world.
    pub num_ranks: u32,
    /// Launch that flags must carry.
    pub epoch: i32,
    /// Distance of signals in bytes.
    pub signal_stride_bytes: u32,
    /// Counts in a line; the word behind them is the line's flag.
    pub counts_per_line: u32,
    /// 32-bit words of a line.
    pub line_words: u32,
}

impl WindowMap {
    /// The map of `rank` for the launch `epoch`; `bases` holds the addresses of all windows.
    #[must_use]
    pub fn new(layout: &WindowLayout, rank: u32, epoch: i32, bases: Gm<u64>) -> Self {
        let extent = |region| layout.extent(region);
        Self {
            bases,
            packed_rows: extent(Region::PackedRows).offset,
            packed_row_bytes: extent(Region::PackedRows).stride,
            returned_rows: extent(Region::ReturnedRows).offset,
            returned_row_bytes: extent(Region::ReturnedRows).stride,
            counts: layout.counts_of(0, epoch),
            count_row_bytes: extent(Region::Counts).stride,
            rows_ready: extent(Region::RowsReady).offset,
            returned: extent(Region::Returned).offset,
            rank,
            num_ranks: layout.num_ranks(),
            epoch,
            signal_stride_bytes: layout::SIGNAL_STRIDE_BYTES as u32,
            counts_per_line: layout::COUNTS_PER_LINE as u32,
            line_words: layout::LINE_WORDS as u32,
        }
    }
}
