//! int8 matrix tiles: `c[m, n] (+)= a[m, k] * b[k, n]`, exact in int32.
//!
//! The operands lie as the inner loop reads them. Left: panels of [`PANEL_ROWS`] rows (the last one
//! shorter), each `[k / 4][rows][4]`. Right: blocks of [`BLOCK_COLS`] columns, each `[k / 4][32][4]`, as
//! **unsigned** bytes `b + 128`: the processor's instruction multiplies unsigned by signed. The surplus
//! `128 * sum(a)` of each row is taken off through [`row_sums`].

use super::Level;

/// Rows of a panel: 12 x 32 accumulators fill 24 of 32 vector registers.
pub const PANEL_ROWS: usize = 12;
/// Columns of a block.
pub const BLOCK_COLS: usize = 32;

/// Offset of element (row, k) of a left operand of `rows` valid rows and `k_len` columns of room.
#[must_use]
pub fn left_index(rows: usize, k_len: usize, row: usize, k: usize) -> usize {
    let panel = row / PANEL_ROWS;
    let height = PANEL_ROWS.min(rows - panel * PANEL_ROWS);
    panel * PANEL_ROWS * k_len + (k / 4) * height * 4 + (row % PANEL_ROWS) * 4 + k % 4
}

/// Offset of element (k, column) of a right operand with `k_len` rows of room.
#[must_use]
pub fn right_index(k_len: usize, k: usize, column: usize) -> usize {
    (column / BLOCK_COLS) * BLOCK_COLS * k_len
        + (k / 4) * BLOCK_COLS * 4
        + (column % BLOCK_COLS) * 4
        + k % 4
}

/// Packs a left operand from rows cut into pieces of 32 bytes: the piece `c` of row `r` is at
/// `source + c * piece_stride + r * 32`.
///
/// # Safety
/// `rows * k` source bytes (k rounded up to 32) and `rows * k_len` target bytes are valid; `k_len` is a
/// multiple of 32 and at least `k`.
pub unsafe fn pack_left(
    target: *mut u8,
    source: *const u8,
    piece_stride: usize,
    (rows, k, k_len): (usize, usize, usize),
) {
    for first in (0..rows).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(rows - first);
        // SAFETY: panels before this one take `first * k_len` bytes.
        let panel = unsafe { target.add(first * k_len).cast::<u32>() };
        for piece in 0..k.div_ceil(32) {
            for row in 0..height {
                // SAFETY: the piece and row exist.
                let words = unsafe {
                    source
                        .add(piece * piece_stride + (first + row) * 32)
                        .cast::<[u32; 8]>()
                        .read_unaligned()
                };
                for (step, word) in words.into_iter().enumerate() {
                    // SAFETY: step `piece * 8 + step` of the panel, which has `k_len / 4`.
                    unsafe {
                        panel
                            .add((piece * 8 + step) * height + row)
                            .write_unaligned(word);
                    };
                }
            }
        }
    }
}

/// Packs a right operand from a column of fractals: row `k` of the block `b` of 32 columns is at
/// `source + b * block_stride + k * 32`. Rows from `k` on to the next multiple of four count as zero.
///
/// # Safety
/// The source rows, and `blocks * 32 * k_len` target bytes are valid; `k_len` is a multiple of 4 and at
/// least `k`.
pub unsafe fn pack_right(
    level: Level,
    target: *mut u8,
    source: *const u8,
    block_stride: usize,
    (k, blocks, k_len): (usize, usize, usize),
) {
    for block in 0..blocks {
        for step in 0..k.div_ceil(4) {
            let mut rows = [[0u8; BLOCK_COLS]; 4];
            for (i, row) in rows.iter_mut().enumerate().take(k - (step * 4).min(k)) {
                // SAFETY: row `step * 4 + i` is below `k`.
                *row = unsafe {
                    source
                        .add(block * block_stride + (step * 4 + i) * 32)
                        .cast::<[u8; 32]>()
                        .read()
                };
            }
            // SAFETY: the block has `k_len / 4` steps of 128 bytes.
            let target = unsafe { target.add(block * BLOCK_COLS * k_len + step * BLOCK_COLS * 4) };
            match level {
                // SAFETY: the processor has the level.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 | Level::Avx512 => unsafe { interleave_avx2(&rows, target) },
                _ => {
                    for column in 0..BLOCK_COLS {
                        for (i, row) in rows.iter().enumerate() {
                            // SAFETY: within the 128 bytes of the step.
                            unsafe { target.add(column * 4 + i).write(row[column] ^ 0x80) };
                        }
                    }
                }
            }
        }
    }
}

/// Four rows of 32 bytes to 32 columns of four, with the sign bit flipped.
///
/// # Safety
/// The processor has AVX2; 128 bytes of `target` are valid.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn interleave_avx2(rows: &[[u8; BLOCK_COLS]; 4], target: *mut u8) {
    use std::arch::x86_64::*;
    // SAFETY: each row has 32 bytes.
    let [a, b, c, d] = rows
        .each_ref()
        .map(|row| unsafe { _mm256_loadu_si256(row.as_ptr().cast()) });
    let flip = _mm256_set1_epi8(i8::MIN);
    let (ab_low, ab_high) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    // In each half of a register: columns 0-3, 4-7, 8-11, 12-15 of that half.
    let quarters = [
        _mm256_unpacklo_epi16(ab_low, cd_low),
        _mm256_unpackhi_epi16(ab_low, cd_low),
        _mm256_unpacklo_epi16(ab_high, cd_high),
        _mm256_unpackhi_epi16(ab_high, cd_high),
    ]
    .map(|quarter| _mm256_xor_si256(quarter, flip));
    let out = [
        _mm256_permute2x128_si256::<0x20>(quarters[0], quarters[1]),
        _mm256_permute2x128_si256::<0x20>(quarters[2], quarters[3]),
        _mm256_permute2x128_si256::<0x31>(quarters[0], quarters[1]),
        _mm256_permute2x128_si256::<0x31>(quarters[2], quarters[3]),
    ];
    for (i, vector) in out.into_iter().enumerate() {
        // SAFETY: 4 vectors of 32 bytes.
        unsafe { _mm256_storeu_si256(target.add(i * 32).cast(), vector) };
    }
}

/// Sums of the rows of a packed left operand.
///
/// # Safety
/// `rows * k_len` bytes are valid; columns from `k` to the next multiple of four hold zeros.
pub unsafe fn row_sums(left: *const u8, (rows, k, k_len): (usize, usize, usize), sums: &mut [i32]) {
    for first in (0..rows).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(rows - first);
        let mut panel_sums = [0i32; PANEL_ROWS];
        for step in 0..k.div_ceil(4) {
            for (row, sum) in panel_sums.iter_mut().enumerate().take(height) {
                // SAFETY: the step and row exist.
                let four = unsafe {
                    left.add(first * k_len + (step * height + row) * 4)
                        .cast::<[i8; 4]>()
                        .read()
                };
                *sum += four.into_iter().map(i32::from).sum::<i32>();
            }
        }
        sums[first..first + height].copy_from_slice(&panel_sums[..height]);
    }
}

/// A product of packed operands.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Columns of room in the left operand, and rows in the right one.
    pub k_len: usize,
    /// Elements from one row of the result to the next.
    pub c_stride: usize,
    /// Add to the result instead of replacing it.
    pub accumulate: bool,
}

/// Multiplies packed operands; `sums` are the left operand's [`row_sums`].
///
/// # Safety
/// Operands have the sizes that `product` says; blocks of columns that are cut off at `n` are written
/// whole if `c_stride` has room for them.
pub unsafe fn multiply(
    level: Level,
    product: &Product,
    left: *const u8,
    right: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    for first in (0..product.m).step_by(PANEL_ROWS) {
        let height = PANEL_ROWS.min(product.m - first);
        for column in (0..product.n).step_by(BLOCK_COLS) {
            let width = BLOCK_COLS.min(product.c_stride - column);
            // SAFETY: panel and block exist.
            let (panel, block, c) = unsafe {
                (
                    left.add(first * product.k_len),
                    right.add(column * product.k_len),
                    c.add(first * product.c_stride + column),
                )
            };
            let sums = &sums[first..first + height];
            match level {
                // SAFETY: the processor has the level; the sizes are as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 if width == BLOCK_COLS => unsafe {
                    vnni::panel(product, height, panel, block, sums, c);
                },
                // SAFETY: the processor has the level; the sizes are as above.
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => unsafe {
                    avx2_panel(product, (height, width), panel, block, sums, c);
                },
                // SAFETY: the sizes are as above.
                _ => unsafe { portable_panel(product, (height, width), panel, block, sums, c) },
            }
        }
    }
}

/// # Safety
/// As for [`multiply`], for one panel and one block; the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_panel(
    product: &Product,
    sizes: (usize, usize),
    panel: *const u8,
    block: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    // SAFETY: as the caller promises.
    unsafe { portable_panel(product, sizes, panel, block, sums, c) }
}

/// # Safety
/// As for [`multiply`], for one panel and one block.
#[inline(always)]
unsafe fn portable_panel(
    product: &Product,
    (height, width): (usize, usize),
    panel: *const u8,
    block: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    for row in 0..height {
        let mut acc = [sums[row] * -128; BLOCK_COLS];
        for step in 0..product.k.div_ceil(4) {
            // SAFETY: step and row exist in the panel, the step in the block.
            let (a, b) = unsafe {
                (
                    panel
                        .add((step * height + row) * 4)
                        .cast::<[i8; 4]>()
                        .read(),
                    block
                        .add(step * BLOCK_COLS * 4)
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
                let c = c.add(row * product.c_stride + column);
                c.write(if product.accumulate {
                    c.read() + acc
                } else {
                    *acc
                });
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    //! The inner loop with AVX-512 VNNI: 12 x 32 accumulators stay in registers over all of k.

    use std::arch::x86_64::*;

    use super::{BLOCK_COLS, PANEL_ROWS, Product};

    /// # Safety
    /// As for [`super::multiply`], for one panel and a whole block; the processor has AVX-512 VNNI.
    pub(super) unsafe fn panel(
        product: &Product,
        height: usize,
        panel: *const u8,
        block: *const u8,
        sums: &[i32],
        c: *mut i32,
    ) {
        macro_rules! by_height {
            ($($rows:literal)*) => {
                match height {
                    // SAFETY: as the caller promises, for this height.
                    $($rows => unsafe { kernel::<$rows>(product, panel, block, sums, c) },)*
                    _ => unreachable!("a panel has 1 to {PANEL_ROWS} rows"),
                }
            };
        }
        by_height!(1 2 3 4 5 6 7 8 9 10 11 12);
    }

    /// # Safety
    /// As for [`panel`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn kernel<const ROWS: usize>(
        product: &Product,
        panel: *const u8,
        block: *const u8,
        sums: &[i32],
        c: *mut i32,
    ) {
        let mut acc = [[_mm512_setzero_si512(); 2]; ROWS];
        for row in 0..ROWS {
            let surplus = _mm512_set1_epi32(sums[row] * -128);
            acc[row] = [surplus; 2];
            if product.accumulate {
                for half in 0..2 {
                    // SAFETY: the block's 32 columns of the row exist.
                    let old = unsafe {
                        _mm512_loadu_si512(c.add(row * product.c_stride + 16 * half).cast())
                    };
                    acc[row][half] = _mm512_add_epi32(old, surplus);
                }
            }
        }
        let (mut a, mut b) = (panel.cast::<i32>(), block);
        for _ in 0..product.k.div_ceil(4) {
            // SAFETY: a step of the block has 128 bytes, one of the panel 4 for each row.
            unsafe {
                let right = [
                    _mm512_loadu_si512(b.cast()),
                    _mm512_loadu_si512(b.add(64).cast()),
                ];
                for row in 0..ROWS {
                    let left = _mm512_set1_epi32(a.add(row).read_unaligned());
                    acc[row][0] = _mm512_dpbusd_epi32(acc[row][0], right[0], left);
                    acc[row][1] = _mm512_dpbusd_epi32(acc[row][1], right[1], left);
                }
                a = a.add(ROWS);
                b = b.add(BLOCK_COLS * 4);
            }
        }
        for row in 0..ROWS {
            for half in 0..2 {
                // SAFETY: as for the loads.
                unsafe {
                    _mm512_storeu_si512(
                        c.add(row * product.c_stride + 16 * half).cast(),
                        acc[row][half],
                    );
                }
            }
        }
    }
}
