//! int8 matrix tiles: `c[m, n] (+)= a[m, k] * b[k, n]`, exact in int32.
//!
//! Operands lie as the NPU's fractals do, so that nothing has to be packed before a product:
//!
//! ```text
//! left    [k / 32][rows][32]            element (row, k) is at (k / 32) * piece_stride + row * 32 + k % 32
//! right   [n / 32][k][32]               element (k, column) is at (column / 32) * block_stride + k * 32 + column % 32
//! ```
//!
//! The processor's instruction multiplies unsigned by signed and sums four products: it wants four rows of the right
//! operand beside each other, as **unsigned** bytes `b + 128`. A block of 32 columns is turned over once for all rows of
//! the left operand (in registers, if they are few); the surplus `128 * sum(a)` of each row is taken off through
//! [`row_sums`].

use super::fractal::{C0_BYTES, Columns, copy_columns};
use super::{Level, multiversion};

mod interleave;
#[cfg(target_arch = "x86_64")]
mod vnni;

use interleave::interleave;

/// Rows of a panel: 12 x 32 accumulators fill 24 of 32 vector registers.
pub const PANEL_ROWS: usize = 12;
/// Columns of a block.
pub const BLOCK_COLS: usize = 32;
/// Bytes of four rows of a block.
const STEP_BYTES: usize = 4 * BLOCK_COLS;
/// Steps of a piece of the left operand.
const PIECE_STEPS: usize = C0_BYTES / 4;
/// Inner length of a block that is turned over at a time: with a panel it fits the first-level cache.
const CHUNK: usize = 768;

/// Room for the part of a right operand that is turned over at a time.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Scratch([u8; CHUNK * BLOCK_COLS]);

impl Default for Scratch {
    fn default() -> Self {
        Self([0; CHUNK * BLOCK_COLS])
    }
}

/// A left operand: pieces of 32 bytes of k, each with all rows. Behind `k` the last piece holds zeros.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// The first piece of the first row.
    pub data: *const u8,
    /// Bytes from one piece of a row to its next.
    pub piece_stride: usize,
    /// Its [`row_sums`].
    pub sums: &'a [i32],
}

/// A right operand: blocks of 32 columns, each row after row. Behind `k`, up to a multiple of four, rows are there.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// The first row of the first block.
    pub data: *const u8,
    /// Bytes from one block to the next.
    pub block_stride: usize,
}

/// A product of operands.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Elements from one row of the result to the next.
    pub c_stride: usize,
    /// Add to the result instead of replacing it.
    pub accumulate: bool,
}

/// Copies a left operand, and clears what its last piece has behind `k`.
///
/// # Safety
/// `k` (rounded up to 32) bytes of each row are valid at `source` in pieces `source_stride` apart, and at
/// `target` in pieces `rows * 32` apart.
pub unsafe fn copy_left(
    target: *mut u8,
    source: *const u8,
    source_stride: usize,
    (rows, k): (usize, usize),
) {
    let stride = rows * C0_BYTES;
    let to = Columns {
        data: target,
        stride,
    };
    let from = Columns {
        data: source,
        stride: source_stride,
    };
    // SAFETY: as the caller promises.
    unsafe { copy_columns(to, from, (rows, k.div_ceil(C0_BYTES))) };
    if !k.is_multiple_of(32) {
        for row in 0..rows {
            // SAFETY: the row's last piece exists.
            unsafe {
                let last = target.add((k / 32) * stride + row * 32);
                last.add(k % 32).write_bytes(0, 32 - k % 32);
            }
        }
    }
}

/// Sums of the rows of a left operand: `sums` has one for each row.
///
/// # Safety
/// `k` (rounded up to 32) bytes of each row are valid, in pieces `piece_stride` apart; what is behind `k` is zero.
/// The processor has `level`.
pub unsafe fn row_sums(
    level: Level,
    data: *const u8,
    piece_stride: usize,
    k: usize,
    sums: &mut [i32],
) {
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        // SAFETY: as the caller promises.
        return unsafe { vnni::row_sums(data, piece_stride, k, sums) };
    }
    let _ = level;
    for (row, sum) in sums.iter_mut().enumerate() {
        *sum = 0;
        for piece in 0..k.div_ceil(32) {
            // SAFETY: the piece exists.
            let bytes = unsafe {
                data.add(piece * piece_stride + row * 32)
                    .cast::<[i8; 32]>()
                    .read()
            };
            *sum += bytes.into_iter().map(i32::from).sum::<i32>();
        }
    }
}

/// Multiplies.
///
/// # Safety
/// Operands have the sizes that `product` says, and there is a sum for each row; blocks of columns that are cut
/// off at `n` are written whole if `c_stride` has room for them. The processor has `level`.
pub unsafe fn multiply(
    level: Level,
    product: &Product,
    left: Left<'_>,
    right: Right,
    scratch: &mut Scratch,
    c: *mut i32,
) {
    for first_k in (0..product.k).step_by(CHUNK) {
        let chunk = Chunk {
            steps: CHUNK.min(product.k - first_k).div_ceil(4),
            piece_stride: left.piece_stride,
            c_stride: product.c_stride,
            accumulate: product.accumulate || first_k > 0,
            // The surplus of all of k is taken off once.
            has_surplus: first_k == 0,
        };
        for column in (0..product.n).step_by(BLOCK_COLS) {
            let width = BLOCK_COLS.min(product.c_stride - column);
            // SAFETY: the chunk exists in both operands, the column in the result.
            unsafe {
                let from = right
                    .data
                    .add((column / BLOCK_COLS) * right.block_stride + first_k * BLOCK_COLS);
                let panels = left.data.add((first_k / 32) * left.piece_stride);
                let panels = (panels, left.sums, product.m);
                let to = (c.add(column), width);
                multiply_block(level, &chunk, panels, from, scratch, to);
            }
        }
    }
}

/// What products of one chunk of k have in common.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    steps: usize,
    piece_stride: usize,
    c_stride: usize,
    accumulate: bool,
    has_surplus: bool,
}

impl Chunk {
    fn surplus(&self, sum: i32) -> i32 {
        if self.has_surplus { sum * -128 } else { 0 }
    }
}

/// All rows of the left operand times one block of columns.
///
/// # Safety
/// As for [`multiply`].
unsafe fn multiply_block(
    level: Level,
    chunk: &Chunk,
    (left, sums, m): (*const u8, &[i32], usize),
    right: *const u8,
    scratch: &mut Scratch,
    (c, width): (*mut i32, usize),
) {
    #[cfg(target_arch = "x86_64")]
    if m <= PANEL_ROWS && width == BLOCK_COLS && vnni::interleaves_in_registers(level) {
        // SAFETY: as the caller promises.
        return unsafe { vnni::plain_panel(chunk, m, left, right, sums, c) };
    }
    let turned = scratch.0.as_mut_ptr();
    // SAFETY: a chunk's steps fit the scratch.
    unsafe { interleave(level, turned, right, chunk.steps) };
    for first in (0..m).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(m - first);
        let sums = &sums[first..first + height];
        // SAFETY: the panel exists.
        let (panel, c) = unsafe { (left.add(first * 32), c.add(first * chunk.c_stride)) };
        match level {
            // SAFETY: the processor has the level; the sizes are as the caller promises.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if width == BLOCK_COLS => unsafe {
                vnni::turned_panel(chunk, height, panel, turned, sums, c);
            },
            // SAFETY: as above.
            _ => unsafe { portable_panel(level, chunk, panel, turned, sums, (c, width)) },
        }
    }
}

multiversion! {
    /// For processors and widths that the VNNI loops do not take.
    ///
    /// # Safety
    /// As for [`multiply`], for one panel and one block that is turned over.
    unsafe fn portable_panel[](
        chunk: &Chunk, panel: *const u8, turned: *const u8, sums: &[i32], to: (*mut i32, usize),
    ) = panel_body
}

/// # Safety
/// As for [`portable_panel`].
#[inline(always)]
unsafe fn panel_body(
    chunk: &Chunk,
    panel: *const u8,
    turned: *const u8,
    sums: &[i32],
    (c, width): (*mut i32, usize),
) {
    for (row, &sum) in sums.iter().enumerate() {
        let mut acc = [chunk.surplus(sum); BLOCK_COLS];
        for step in 0..chunk.steps {
            // SAFETY: the step exists in both.
            let (a, b) = unsafe {
                (
                    panel
                        .add((step / PIECE_STEPS) * chunk.piece_stride)
                        .add(row * C0_BYTES + (step % PIECE_STEPS) * 4)
                        .cast::<[i8; 4]>()
                        .read(),
                    turned
                        .add(step * STEP_BYTES)
                        .cast::<[[u8; 4]; BLOCK_COLS]>()
                        .read(),
                )
            };
            for (acc, b) in acc.iter_mut().zip(&b) {
                for i in 0..4 {
                    *acc += i32::from(a[i]) * i32::from(b[i]);
                }
            }
        }
        for (column, acc) in acc.iter().enumerate().take(width) {
            // SAFETY: within the result's row.
            unsafe {
                let c = c.add(row * chunk.c_stride + column);
                c.write(if chunk.accumulate {
                    c.read() + acc
                } else {
                    *acc
                });
            }
        }
    }
}
