//! A block of 32 columns, turned over: four rows of it beside each other.

use super::super::Level;
use super::{BLOCK_COLS, STEP_BYTES};

/// Turns `steps` times four rows of 32 bytes over: byte `i` of column `j` of a step goes to `4 * j + i`, plus 128.
///
/// # Safety
/// `steps * 128` bytes of both are valid and apart. The processor has `level`.
pub(super) unsafe fn interleave(level: Level, target: *mut u8, source: *const u8, steps: usize) {
    #[cfg(target_arch = "x86_64")]
    if super::vnni::interleaves_in_registers(level) {
        // SAFETY: as the caller promises.
        return unsafe { super::vnni::interleave(target, source, steps) };
    }
    for step in 0..steps {
        // SAFETY: the step exists in both.
        unsafe {
            let rows = source
                .add(step * STEP_BYTES)
                .cast::<[[u8; BLOCK_COLS]; 4]>()
                .read();
            let target = target.add(step * STEP_BYTES);
            match level {
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 | Level::Avx512 => avx2(&rows, target),
                _ => portable(&rows, target),
            }
        }
    }
}

/// # Safety
/// 128 bytes of `target` are valid.
unsafe fn portable(rows: &[[u8; BLOCK_COLS]; 4], target: *mut u8) {
    for column in 0..BLOCK_COLS {
        for (i, row) in rows.iter().enumerate() {
            // SAFETY: within the 128 bytes.
            unsafe { target.add(column * 4 + i).write(row[column] ^ 0x80) };
        }
    }
}

/// # Safety
/// The processor has AVX2; 128 bytes of `target` are valid.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(rows: &[[u8; BLOCK_COLS]; 4], target: *mut u8) {
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
