//! The inner loops with AVX-512 VNNI: 12 x 32 accumulators stay in registers over a chunk of k.

use std::arch::x86_64::*;

use super::super::Level;
use super::{BLOCK_COLS, Chunk, PANEL_ROWS, PIECE_STEPS, STEP_BYTES};

/// How far ahead weights are fetched that stream through: enough for the latency of memory, and past the end of a page
/// for the processor's own prefetcher, which stops there.
const PREFETCH_BYTES: usize = 4096;

/// Whether bytes of two registers can be mixed at will, so that few rows need no scratch.
pub(super) fn interleaves_in_registers(level: Level) -> bool {
    level == Level::Avx512 && is_x86_feature_detected!("avx512vbmi")
}

/// For columns 0 to 15 of four rows of 32 bytes: where the bytes of each come from. 16 more are columns 16 to 31.
const fn column_bytes() -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = ((i % 4) * BLOCK_COLS + i / 4) as u8;
        i += 1;
    }
    bytes
}

static COLUMNS: [u8; 64] = column_bytes();

/// Four rows of a block as 2 x 16 columns of four unsigned bytes.
///
/// # Safety
/// 128 bytes are valid; the processor has the features.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn columns_of(source: *const u8, low_index: __m512i, high_index: __m512i) -> [__m512i; 2] {
    // SAFETY: as the caller promises.
    let (front, back) = unsafe {
        (
            _mm512_loadu_si512(source.cast()),
            _mm512_loadu_si512(source.add(64).cast()),
        )
    };
    let flip = _mm512_set1_epi8(i8::MIN);
    let (front, back) = (_mm512_xor_si512(front, flip), _mm512_xor_si512(back, flip));
    [
        _mm512_permutex2var_epi8(front, low_index, back),
        _mm512_permutex2var_epi8(front, high_index, back),
    ]
}

/// Indices for [`columns_of`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn column_indices() -> [__m512i; 2] {
    // SAFETY: the table has 64 bytes.
    let low = unsafe { _mm512_loadu_si512(COLUMNS.as_ptr().cast()) };
    [low, _mm512_add_epi8(low, _mm512_set1_epi8(16))]
}

/// # Safety
/// As for [`super::interleave::interleave`]; the processor has the features.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn interleave(target: *mut u8, source: *const u8, steps: usize) {
    let [low, high] = column_indices();
    for step in 0..steps {
        // SAFETY: the step exists in both.
        unsafe {
            let columns = columns_of(source.add(step * STEP_BYTES), low, high);
            let target = target.add(step * STEP_BYTES);
            _mm512_storeu_si512(target.cast(), columns[0]);
            _mm512_storeu_si512(target.add(64).cast(), columns[1]);
        }
    }
}

/// # Safety
/// As for [`super::row_sums`]; the processor has AVX-512 VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn row_sums(data: *const u8, piece_stride: usize, k: usize, sums: &mut [i32]) {
    let ones = _mm256_set1_epi8(1);
    for (group, sums) in sums.chunks_mut(8).enumerate() {
        let mut acc = [_mm256_setzero_si256(); 8];
        for piece in 0..k.div_ceil(32) {
            for (row, acc) in acc.iter_mut().enumerate().take(sums.len()) {
                // SAFETY: the piece of the row exists.
                let bytes = unsafe {
                    let at = piece * piece_stride + (group * 8 + row) * 32;
                    _mm256_loadu_si256(data.add(at).cast())
                };
                *acc = _mm256_dpbusd_epi32(*acc, ones, bytes);
            }
        }
        for (sum, acc) in sums.iter_mut().zip(acc) {
            let mut lanes = [0i32; 8];
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), acc) };
            *sum = lanes.into_iter().sum();
        }
    }
}

macro_rules! by_height {
    ($height:expr, $kernel:ident($($arg:expr),*)) => {
        by_height!(@ $height, $kernel, ($($arg),*), 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (@ $height:expr, $kernel:ident, $args:tt, $($rows:literal)*) => {
        match $height {
            // SAFETY: as the caller promises, for this height.
            $($rows => unsafe { by_height!(% $kernel, $rows, $args) },)*
            _ => unreachable!("a panel has 1 to {PANEL_ROWS} rows"),
        }
    };
    (% $kernel:ident, $rows:literal, ($($arg:expr),*)) => { $kernel::<$rows>($($arg),*) };
}

/// A panel times a block that is turned over.
///
/// # Safety
/// As for [`super::multiply`]; the processor has AVX-512 VNNI.
pub(super) unsafe fn turned_panel(
    chunk: &Chunk,
    height: usize,
    panel: *const u8,
    turned: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    by_height!(height, turned_rows(chunk, panel, turned, sums, c));
}

/// A panel times a block as it is.
///
/// # Safety
/// As for [`super::multiply`]; the processor has AVX-512 VNNI and VBMI.
pub(super) unsafe fn plain_panel(
    chunk: &Chunk,
    height: usize,
    panel: *const u8,
    block: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    by_height!(height, plain_rows(chunk, panel, block, sums, c));
}

/// The loop over a chunk for `$rows` rows of `$panel`; `$columns` loads what a step has of the block from a pointer to it.
///
/// A macro, and all of it in one function: accumulators stay in registers only if none of them has an address.
macro_rules! sum_chunk {
    ($rows:ident, $chunk:ident, $panel:ident, $block:ident, $sums:ident, $c:ident, $columns:expr) => {
        // SAFETY: as the caller promises: 32 columns of each row of `c`, all pieces of the panel and all steps of the
        // block are valid.
        unsafe {
            let mut acc = [[_mm512_setzero_si512(); 2]; $rows];
            for row in 0..$rows {
                let surplus = _mm512_set1_epi32($chunk.surplus($sums[row]));
                acc[row] = [surplus; 2];
                if $chunk.accumulate {
                    let old = $c.add(row * $chunk.c_stride);
                    let low = _mm512_loadu_si512(old.cast());
                    let high = _mm512_loadu_si512(old.add(16).cast());
                    acc[row] = [
                        _mm512_add_epi32(low, surplus),
                        _mm512_add_epi32(high, surplus),
                    ];
                }
            }
            let (mut piece, mut block) = ($panel, $block);
            let mut steps = $chunk.steps;
            while steps > 0 {
                let in_piece = PIECE_STEPS.min(steps);
                let mut left = piece;
                for _ in 0..in_piece {
                    let columns = $columns(block);
                    for row in 0..$rows {
                        let four = left.add(row * 32).cast::<i32>().read_unaligned();
                        let four = _mm512_set1_epi32(four);
                        acc[row][0] = _mm512_dpbusd_epi32(acc[row][0], columns[0], four);
                        acc[row][1] = _mm512_dpbusd_epi32(acc[row][1], columns[1], four);
                    }
                    left = left.add(4);
                    block = block.add(STEP_BYTES);
                }
                piece = piece.wrapping_add($chunk.piece_stride);
                steps -= in_piece;
            }
            for row in 0..$rows {
                let to = $c.add(row * $chunk.c_stride);
                _mm512_storeu_si512(to.cast(), acc[row][0]);
                _mm512_storeu_si512(to.add(16).cast(), acc[row][1]);
            }
        }
    };
}

/// # Safety
/// As for [`turned_panel`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn turned_rows<const ROWS: usize>(
    chunk: &Chunk,
    panel: *const u8,
    turned: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    sum_chunk!(ROWS, chunk, panel, turned, sums, c, |step: *const u8| [
        _mm512_loadu_si512(step.cast()),
        _mm512_loadu_si512(step.add(64).cast()),
    ]);
}

/// # Safety
/// As for [`plain_panel`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")]
unsafe fn plain_rows<const ROWS: usize>(
    chunk: &Chunk,
    panel: *const u8,
    block: *const u8,
    sums: &[i32],
    c: *mut i32,
) {
    let [low, high] = column_indices();
    sum_chunk!(ROWS, chunk, panel, block, sums, c, |step: *const u8| {
        // A prefetch may point anywhere.
        _mm_prefetch::<_MM_HINT_T0>(step.wrapping_add(PREFETCH_BYTES).cast());
        _mm_prefetch::<_MM_HINT_T0>(step.wrapping_add(PREFETCH_BYTES + 64).cast());
        columns_of(step, low, high)
    });
}
