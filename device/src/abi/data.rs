//! Data between global memory and on-chip memories.

use std::sync::atomic::{AtomicU32, Ordering};

use super::types::{DType, GmLayout, GmView, Memory, TileLayout, TileView};
use super::{place, unsupported};
use crate::checked::Agent;
use crate::compute::elementwise::{Half, Number};
use crate::compute::fractal::{C0_BYTES, Columns};
use crate::runtime::constant::ConstantTile;
use crate::runtime::core::Core;

/// What becomes visible to other cores and ranks at once.
const LINE_BYTES: usize = 512;

impl GmView {
    pub(crate) fn layout(&self) -> GmLayout {
        GmLayout::ALL[self.layout as usize]
    }

    pub(crate) fn dtype(&self) -> DType {
        DType::of(self.dtype as u8)
    }

    /// Address of row `row` of the view taken as a matrix: the outer four dimensions are its rows.
    pub(crate) fn row(&self, row: usize) -> *mut u8 {
        let mut rest = row as i64;
        let mut offset = 0;
        for dim in (0..4).rev() {
            offset += rest % self.shape[dim] * self.stride[dim];
            rest /= self.shape[dim];
        }
        self.at(offset)
    }

    fn num_rows(&self) -> i64 {
        self.shape[..4].iter().product()
    }

    fn at(&self, element: i64) -> *mut u8 {
        let bytes = element * self.dtype().bytes() as i64;
        self.data.wrapping_add_signed(bytes) as *mut u8
    }
}

fn check_matrix(core: &Core, instruction: &str, gm: &GmView, tile: &TileView) {
    let (rows, cols) = (i64::from(tile.valid_rows), i64::from(tile.valid_cols));
    if rows > gm.num_rows() || cols > gm.shape[4] {
        let shape = gm.shape;
        core.fail(&format!(
            "{instruction}: {rows} x {cols} elements of global memory of shape {shape:?}"
        ));
    }
    if gm.stride[4] != 1 && gm.shape[4] != 1 {
        let stride = gm.stride[4];
        core.fail(&format!(
            "{instruction}: innermost stride is {stride}, but must be 1"
        ));
    }
    if gm.dtype().bytes() != tile.dtype().bytes() {
        let (memory, tile) = (gm.dtype(), tile.dtype());
        core.fail(&format!(
            "{instruction}: {memory:?} in global memory, {tile:?} in the tile"
        ));
    }
}

/// `TLOAD`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_load(tile: &TileView, gm: &GmView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    core.maybe_preempt();
    let target = place(core, "TLOAD", tile);
    core.track("TLOAD", Agent::Mte2, |i| {
        i.reads_global(gm, tile);
        i.writes(tile);
    });
    if tile.memory() == Memory::L1 {
        core.replace_constants(Memory::L1, &tile.bytes());
    }
    match (tile.layout(), gm.layout()) {
        (TileLayout::RowMajor | TileLayout::ColMajor, GmLayout::Nd) => {
            check_matrix(core, "TLOAD", gm, tile);
            // SAFETY: the tile has been placed, and the kernel vouches for global memory.
            unsafe { load_rows(target, tile, gm) }
        }
        (TileLayout::Nz, GmLayout::Nd) => {
            check_matrix(core, "TLOAD", gm, tile);
            // SAFETY: as above.
            unsafe { load_rows_as_fractals(target, tile, gm) }
        }
        // SAFETY: as above.
        (TileLayout::Nz, GmLayout::Nz) => unsafe { load_fractals(core, target, tile, gm) },
        (tile, gm) => core.fail(&format!("TLOAD from {gm:?} to {tile:?} is not supported")),
    }
}

unsafe fn load_rows(target: *mut u8, tile: &TileView, gm: &GmView) {
    let bytes = tile.dtype().bytes();
    let len = tile.valid_cols as usize * bytes;
    for row in 0..tile.valid_rows as usize {
        // SAFETY: the row is in the tile; the kernel vouches for global memory.
        unsafe {
            let target = target.add(row * tile.pitch() * bytes);
            std::ptr::copy_nonoverlapping(gm.row(row), target, len);
        }
    }
}

/// Rows to columns of fractals; the rest of a row's last piece becomes zero.
unsafe fn load_rows_as_fractals(target: *mut u8, tile: &TileView, gm: &GmView) {
    // Rows that are taken together, so that what is written lies together.
    const GROUP: usize = 8;
    let len = tile.valid_cols as usize * tile.dtype().bytes();
    let piece_stride = tile.rows as usize * C0_BYTES;
    let rows = tile.valid_rows as usize;
    for first in (0..rows).step_by(GROUP) {
        let group = GROUP.min(rows - first);
        let sources: [*const u8; GROUP] =
            std::array::from_fn(|row| gm.row(first + row.min(group - 1)).cast_const());
        // SAFETY: rows and pieces are in the tile; the kernel vouches for global memory.
        unsafe {
            let target = target.add(first * C0_BYTES);
            for piece in 0..len / C0_BYTES {
                let target = target.add(piece * piece_stride).cast::<[u8; C0_BYTES]>();
                for (row, source) in sources.iter().enumerate().take(group) {
                    let source = source.add(piece * C0_BYTES);
                    target
                        .add(row)
                        .write(source.cast::<[u8; C0_BYTES]>().read());
                }
            }
            let (done, rest) = (len / C0_BYTES * C0_BYTES, len % C0_BYTES);
            if rest > 0 {
                for (row, source) in sources.iter().enumerate().take(group) {
                    let target = target.add(len / C0_BYTES * piece_stride + row * C0_BYTES);
                    std::ptr::copy_nonoverlapping(source.add(done), target, rest);
                    target.add(rest).write_bytes(0, C0_BYTES - rest);
                }
            }
        }
    }
}

/// Columns of fractals as they are: shape `[1, columns, row blocks, 16, C0]`.
unsafe fn load_fractals(core: &mut Core, target: *mut u8, tile: &TileView, gm: &GmView) {
    let c0 = (C0_BYTES / tile.dtype().bytes()) as i64;
    let columns = (i64::from(tile.valid_cols) + c0 - 1) / c0;
    let row_blocks = (i64::from(tile.valid_rows) + 15) / 16;
    let whole = gm.shape[3] == 16 && gm.shape[4] == c0 && gm.stride[3] == c0 && gm.stride[4] == 1;
    if !whole || columns > gm.shape[1] || row_blocks > gm.shape[2] {
        let shape = gm.shape;
        core.fail(&format!(
            "TLOAD: {columns} x {row_blocks} fractals of global memory of shape {shape:?}"
        ));
    }
    if let Some(constant) = constant_tile(core, tile, gm) {
        core.constants(Memory::L1).put(constant);
        return;
    }
    for column in 0..columns {
        for block in 0..row_blocks {
            let source = gm.at(column * gm.stride[1] + block * gm.stride[2]);
            let rows = usize::min(16, tile.valid_rows as usize - 16 * block as usize);
            let offset = (column as usize * tile.rows as usize + 16 * block as usize) * C0_BYTES;
            // SAFETY: the fractal is in the tile; the kernel vouches for global memory.
            unsafe { std::ptr::copy_nonoverlapping(source, target.add(offset), rows * C0_BYTES) }
        }
    }
}

/// A tile of whole fractals of constant memory, one below the other.
fn constant_tile(core: &Core, tile: &TileView, gm: &GmView) -> Option<ConstantTile> {
    let (valid_rows, valid_cols) = (tile.valid_rows as usize, tile.valid_cols as usize);
    let packed = tile.dtype() == DType::I8
        && tile.memory() == Memory::L1
        && gm.stride[2] == 16 * C0_BYTES as i64
        && gm.stride[1] > 0
        && !tile.bytes().is_empty();
    let last_column = valid_cols.div_ceil(C0_BYTES) as i64 - 1;
    if !packed || last_column < 0 {
        return None;
    }
    // Products read rows in fours; fractals have sixteen.
    let end = gm.at(last_column * gm.stride[1]) as u64
        + (valid_rows.next_multiple_of(16) * C0_BYTES) as u64;
    core.launch
        .is_constant(&(gm.data..end))
        .then(|| ConstantTile {
            address: tile.address as usize,
            rows: tile.rows as usize,
            bytes: tile.bytes().len(),
            valid_rows,
            valid_cols,
            source: Columns {
                data: gm.data as *const u8,
                stride: gm.stride[1] as usize,
            },
        })
}

/// `TSTORE` of a vector tile; `add` is nonzero for an atomic addition.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_store(gm: &GmView, tile: &TileView, add: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    core.maybe_preempt();
    let source = place(core, "TSTORE", tile);
    if gm.layout() != GmLayout::Nd || tile.memory() != Memory::Ub {
        let (memory, layout) = (tile.memory(), gm.layout());
        core.fail(&format!(
            "TSTORE from {memory:?} to {layout:?} is not supported"
        ));
    }
    check_matrix(core, "TSTORE", gm, tile);
    core.track("TSTORE", Agent::Mte3, |i| {
        i.reads(tile);
        i.writes_global(gm, tile);
    });
    let bytes = tile.dtype().bytes();
    let cols = tile.valid_cols as usize;
    for row in 0..tile.valid_rows as usize {
        // SAFETY: the row is in the tile; the kernel vouches for global memory.
        unsafe {
            let source = source.add(row * tile.pitch() * bytes);
            if add == 0 {
                store_bytes(gm.row(row), source, cols * bytes);
            } else {
                add_elements(core, tile, gm.row(row), source, cols);
            }
        }
    }
}

/// Copies so that the last word of each line comes after the rest of it: who sees the word sees the line,
/// as on hardware, where a line appears at once.
///
/// # Safety
/// `len` bytes of both are valid.
unsafe fn store_bytes(target: *mut u8, source: *const u8, len: usize) {
    let mut done = 0;
    while done < len {
        let to_line_end = LINE_BYTES - (target as usize + done) % LINE_BYTES;
        let count = to_line_end.min(len - done);
        // SAFETY: within the `len` bytes.
        let (to, from) = unsafe { (target.add(done), source.add(done)) };
        let ends_line = count == to_line_end && count >= 4;
        let plain = if ends_line { count - 4 } else { count };
        // SAFETY: within the `count` bytes; the last word of a line is aligned.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, plain);
            if ends_line {
                let word = from.add(plain).cast::<u32>().read_unaligned();
                (*to.add(plain).cast::<AtomicU32>()).store(word, Ordering::Release);
            }
        }
        done += count;
    }
}

/// # Safety
/// `cols` elements of both are valid.
unsafe fn add_elements(
    core: &Core,
    tile: &TileView,
    target: *mut u8,
    source: *const u8,
    cols: usize,
) {
    for i in 0..cols {
        // SAFETY: element `i` of both. Elements in global memory are aligned to their size.
        unsafe {
            match tile.dtype() {
                DType::I32 => {
                    let word = &*target.cast::<AtomicU32>().add(i);
                    word.fetch_add(source.cast::<u32>().add(i).read(), Ordering::AcqRel);
                }
                DType::F32 => {
                    let word = &*target.cast::<AtomicU32>().add(i);
                    let value = source.cast::<f32>().add(i).read();
                    let sum = |old: u32| Some((f32::from_bits(old) + value).to_bits());
                    // The update never gives up, so there is no error.
                    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum);
                }
                DType::F16 => {
                    let word = &*target.cast::<std::sync::atomic::AtomicU16>().add(i);
                    let value = Half(source.cast::<u16>().add(i).read());
                    let sum = |old: u16| Some(Half(old).add(value).0);
                    // As above.
                    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum);
                }
                _ => unsupported(core, "TSTORE with addition", tile),
            }
        }
    }
}

/// `TMOV` between tiles of the same shape, and from L1 to the fixpipe's scales.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_move(target: &TileView, source: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (to, from) = (place(core, "TMOV", target), place(core, "TMOV", source));
    if source.memory() == Memory::L1 {
        core.settle_constants(Memory::L1, &source.bytes());
    }
    super::check_same_region(core, "TMOV", &[target, source]);
    let pipe = if source.memory() == Memory::L1 {
        Agent::Fix
    } else {
        Agent::V
    };
    core.track("TMOV", pipe, |i| {
        i.reads(source);
        i.writes(target);
    });
    let bytes = source.dtype().bytes();
    for row in 0..source.valid_rows as usize {
        // SAFETY: both rows have been placed; they may be the same.
        unsafe {
            std::ptr::copy(
                from.add(row * source.pitch() * bytes),
                to.add(row * target.pitch() * bytes),
                source.valid_cols as usize * bytes,
            );
        }
    }
}
