//! Tiles of global memory that only ever is read: they stay where they are until something needs them on the chip.
//!
//! A load of weights into L1, and their extraction to L0B, moves no byte on the host: both memories remember where the
//! tile's fractals lie. Nobody can write those, so nobody can tell when they are read. Where a tile is only partly
//! replaced, or is read in another shape than it was loaded in, it is copied first ([`ConstantTiles::settle`]).

use std::ops::Range;

use crate::compute::fractal::{C0_BYTES, Columns, copy_columns};

/// Fractals of constant memory that stand for a tile at `address`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConstantTile {
    /// Byte address in the on-chip memory.
    pub(crate) address: usize,
    /// Rows that the tile has room for.
    pub(crate) rows: usize,
    /// Bytes that the tile has room for.
    pub(crate) bytes: usize,
    /// Rows that hold data.
    pub(crate) valid_rows: usize,
    /// Columns that hold data.
    pub(crate) valid_cols: usize,
    /// Its fractals.
    pub(crate) source: Columns<*const u8>,
}

impl ConstantTile {
    fn range(&self) -> Range<usize> {
        self.address..self.address + self.bytes
    }

    /// Whether `valid` rows and columns from `(row, col)` on hold data.
    pub(crate) fn holds(&self, (row, col): (usize, usize), valid: (usize, usize)) -> bool {
        row + valid.0 <= self.valid_rows && col + valid.1 <= self.valid_cols
    }

    /// The part of `valid` rows and columns from `(row, col)` on, as a tile at another place.
    pub(crate) fn part(
        &self,
        (row, col): (usize, usize),
        valid: (usize, usize),
        (address, rows, bytes): (usize, usize, usize),
    ) -> Option<Self> {
        let Columns { data, stride } = self.source;
        self.holds((row, col), valid).then(|| Self {
            address,
            rows,
            bytes,
            valid_rows: valid.0,
            valid_cols: valid.1,
            source: Columns {
                data: data.wrapping_add((col / C0_BYTES) * stride + row * C0_BYTES),
                stride,
            },
        })
    }

    /// # Safety
    /// `memory` is the whole on-chip memory.
    unsafe fn copy_to(&self, memory: *mut u8) {
        let count = self.valid_cols.div_ceil(C0_BYTES);
        // SAFETY: the tile lies in the memory, and its fractals in constant memory.
        unsafe {
            let target = Columns {
                data: memory.add(self.address),
                stride: self.rows * C0_BYTES,
            };
            copy_columns(target, self.source, (self.valid_rows, count));
        }
    }
}

/// The constant tiles of one on-chip memory. They do not overlap.
#[derive(Debug, Default)]
pub(crate) struct ConstantTiles(Vec<ConstantTile>);

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl ConstantTiles {
    /// The tile at this address, if it has room for as many rows.
    pub(crate) fn at(&self, address: usize, rows: usize) -> Option<&ConstantTile> {
        self.0
            .iter()
            .find(|tile| tile.address == address && tile.rows == rows)
    }

    /// Before bytes are read or partly written: what stands for them is copied to where it belongs.
    ///
    /// # Safety
    /// `memory` is the whole on-chip memory.
    pub(crate) unsafe fn settle(&mut self, memory: *mut u8, range: &Range<usize>) {
        self.0.retain(|tile| {
            let keep = !overlap(&tile.range(), range);
            if !keep {
                // SAFETY: as the caller promises.
                unsafe { tile.copy_to(memory) };
            }
            keep
        });
    }

    /// Before a tile is loaded to `range`: what it replaces is forgotten, what it replaces in part is copied.
    ///
    /// # Safety
    /// `memory` is the whole on-chip memory.
    pub(crate) unsafe fn replace(&mut self, memory: *mut u8, range: &Range<usize>) {
        self.0.retain(|tile| {
            let old = tile.range();
            !(range.start <= old.start && old.end <= range.end)
        });
        // SAFETY: as the caller promises.
        unsafe { self.settle(memory, range) };
    }

    /// Remembers a tile whose place is free.
    pub(crate) fn put(&mut self, tile: ConstantTile) {
        self.0.push(tile);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 32;

    /// Two columns of fractals, 8 bytes further apart than they need.
    fn fractals() -> Vec<u8> {
        (0..2 * (ROWS * C0_BYTES + 8))
            .map(|i| (i % 251) as u8)
            .collect()
    }

    fn tile(source: &[u8], address: usize) -> ConstantTile {
        ConstantTile {
            address,
            rows: ROWS,
            bytes: 2 * ROWS * C0_BYTES,
            valid_rows: 20,
            valid_cols: 40,
            source: Columns {
                data: source.as_ptr(),
                stride: ROWS * C0_BYTES + 8,
            },
        }
    }

    fn tiles(source: &[u8], addresses: &[usize]) -> ConstantTiles {
        let mut tiles = ConstantTiles::default();
        for &address in addresses {
            tiles.put(tile(source, address));
        }
        tiles
    }

    #[test]
    fn a_part_starts_at_its_row_and_column_and_stays_inside() {
        let source = fractals();
        let whole = tile(&source, 64);
        let place = (4096, 16, 512);
        let part = whole.part((3, 32), (17, 8), place).unwrap();
        assert_eq!(part.address, 4096);
        assert_eq!(
            part.source.data as usize - source.as_ptr() as usize,
            whole.source.stride + 3 * C0_BYTES
        );
        assert!(whole.part((4, 32), (17, 8), place).is_none());
        assert!(whole.part((3, 32), (17, 9), place).is_none());
    }

    #[test]
    fn what_is_replaced_whole_is_forgotten_and_in_part_is_copied() {
        let source = fractals();
        let mut memory = vec![0xaau8; 8192];
        let first = tile(&source, 0).range();
        let second = tile(&source, 4096).range();
        let mut constants = tiles(&source, &[0, 4096]);
        // SAFETY: both tiles lie in the memory.
        unsafe { constants.replace(memory.as_mut_ptr(), &first) };
        assert!(constants.at(0, ROWS).is_none());
        assert!(memory.iter().all(|&byte| byte == 0xaa));
        // SAFETY: as above.
        unsafe { constants.replace(memory.as_mut_ptr(), &(second.start + 32..second.start + 64)) };
        assert!(constants.at(4096, ROWS).is_none());
        for (column, row) in [(0, 0), (0, 19), (1, 0), (1, 19)] {
            let from = column * (ROWS * C0_BYTES + 8) + row * C0_BYTES;
            let to = 4096 + (column * ROWS + row) * C0_BYTES;
            assert_eq!(memory[to..to + C0_BYTES], source[from..from + C0_BYTES]);
        }
        assert_eq!(
            memory[4096 + 20 * C0_BYTES],
            0xaa,
            "a row that is not valid"
        );
    }

    #[test]
    fn only_what_is_touched_is_settled() {
        let source = fractals();
        let mut memory = vec![0xaau8; 8192];
        let mut constants = tiles(&source, &[0, 4096]);
        // SAFETY: both tiles lie in the memory.
        unsafe { constants.settle(memory.as_mut_ptr(), &(2048..4096)) };
        assert!(constants.at(0, ROWS).is_some() && constants.at(4096, ROWS).is_some());
        assert!(constants.at(0, 2 * ROWS).is_none(), "another shape");
        // SAFETY: as above.
        unsafe { constants.settle(memory.as_mut_ptr(), &(2047..4097)) };
        assert!(constants.at(0, ROWS).is_none() && constants.at(4096, ROWS).is_none());
        assert_eq!(memory[0], source[0]);
    }
}
