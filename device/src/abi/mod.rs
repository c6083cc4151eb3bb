//! What the headers call. Every function is one PTO instruction, or one question of a core about itself.
//!
//! Safety, for all of them: the headers pass pointers to views on the caller's stack, and a kernel's core
//! calls. On-chip addresses are checked here; addresses in global memory are the kernel's word.

mod convert;
mod cube;
mod data;
mod sort;
mod sync;
pub(crate) mod types;
mod vector;

use types::{DType, GmLayout, Memory, TileLayout, TileView};

use crate::runtime::core::Core;

/// Addresses on the chip are multiples of this.
const ALIGN: u32 = 32;

impl DType {
    const ALL: [Self; 11] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
    ];

    fn of(code: u8) -> Self {
        Self::ALL[usize::from(code)]
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 => 8,
        }
    }
}

impl Memory {
    pub(crate) const ALL: [Self; 7] = [
        Self::Ub,
        Self::L1,
        Self::L0a,
        Self::L0b,
        Self::L0c,
        Self::Bias,
        Self::Fixpipe,
    ];
}

impl TileLayout {
    const ALL: [Self; 4] = [Self::RowMajor, Self::ColMajor, Self::Nz, Self::Unit];
}

impl GmLayout {
    const ALL: [Self; 3] = [Self::Nd, Self::Dn, Self::Nz];
}

impl TileView {
    pub(crate) fn dtype(&self) -> DType {
        DType::of(self.dtype)
    }

    pub(crate) fn memory(&self) -> Memory {
        Memory::ALL[usize::from(self.memory)]
    }

    pub(crate) fn layout(&self) -> TileLayout {
        TileLayout::ALL[usize::from(self.layout)]
    }

    /// Elements from the start to the end of the last valid one.
    fn extent(&self) -> usize {
        let (rows, cols) = (self.rows as usize, self.cols as usize);
        let (valid_rows, valid_cols) = (self.valid_rows as usize, self.valid_cols as usize);
        match self.layout() {
            TileLayout::RowMajor => valid_rows.saturating_sub(1) * cols + valid_cols,
            TileLayout::ColMajor => valid_cols.saturating_sub(1) * rows + valid_rows,
            TileLayout::Nz | TileLayout::Unit => rows * cols,
        }
    }

    /// Bytes of its memory, to the end of the last valid element.
    fn bytes(&self) -> std::ops::Range<usize> {
        let start = self.address as usize;
        start..start + self.extent() * self.dtype().bytes()
    }

    /// Elements from one row to the next, where rows lie in one piece.
    fn pitch(&self) -> usize {
        self.cols as usize
    }
}

/// The address of a tile's first element, once the tile is known to be in its memory.
fn place(core: &mut Core, instruction: &str, tile: &TileView) -> *mut u8 {
    if !tile.address.is_multiple_of(ALIGN) {
        let address = tile.address;
        core.fail(&format!(
            "{instruction}: address {address} is no multiple of {ALIGN}"
        ));
    }
    if tile.valid_rows > tile.rows || tile.valid_cols > tile.cols {
        let TileView {
            rows,
            cols,
            valid_rows,
            valid_cols,
            ..
        } = tile;
        core.fail(&format!(
            "{instruction}: {valid_rows} x {valid_cols} valid elements in a tile of {rows} x {cols}"
        ));
    }
    let bytes = tile.extent() * tile.dtype().bytes();
    core.bytes(tile.memory(), tile.address as usize, bytes)
}

/// Rows of a vector instruction's tile. A tile whose rows follow each other without a gap is one run.
fn runs(tiles: &[&TileView]) -> (usize, usize) {
    let first = tiles[0];
    let (rows, cols) = (first.valid_rows as usize, first.valid_cols as usize);
    if tiles.iter().all(|tile| tile.pitch() == cols) {
        (1, rows * cols)
    } else {
        (rows, cols)
    }
}

/// Fails unless all tiles are row-major and have the same valid region.
fn check_same_region(core: &Core, instruction: &str, tiles: &[&TileView]) {
    for tile in tiles {
        // A single column of a column-major tile lies like a row.
        let flat = tile.layout() == TileLayout::ColMajor && tile.cols == 1;
        if tile.layout() != TileLayout::RowMajor && !flat {
            core.fail(&format!(
                "{instruction}: takes row-major tiles, got {:?}",
                tile.layout()
            ));
        }
        let region = |tile: &TileView| (tile.valid_rows, tile.valid_cols);
        if region(tile) != region(tiles[0]) {
            core.fail(&format!(
                "{instruction}: valid regions {:?} and {:?} differ",
                region(tiles[0]),
                region(tile)
            ));
        }
    }
}

fn unsupported(core: &Core, instruction: &str, tile: &TileView) -> ! {
    core.fail(&format!("{instruction} does not take {:?}", tile.dtype()))
}
