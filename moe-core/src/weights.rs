//! The packed layout of int8 weights, in files and on the device.
//!
//! A matrix `[rows, cols]` is padded to `rows % 16 == 0` and `cols % 32 == 0` and stored as column
//! blocks 32 wide; a block is row-major. So 16 rows of a block are one fractal of 512 bytes.

/// Rows of a fractal.
pub const FRACTAL_ROWS: u64 = 16;
/// Columns of a fractal, and of a column block.
pub const FRACTAL_COLS: u64 = 32;

/// Bytes of one packed matrix.
#[must_use]
pub fn packed_bytes(rows: u64, cols: u64) -> u64 {
    rows.next_multiple_of(FRACTAL_ROWS) * cols.next_multiple_of(FRACTAL_COLS)
}

/// Byte offset of element `(row, col)` in a packed matrix of `rows` rows.
#[must_use]
pub fn packed_index(rows: u64, row: u64, col: u64) -> u64 {
    let block = rows.next_multiple_of(FRACTAL_ROWS) * FRACTAL_COLS;
    (col / FRACTAL_COLS) * block + row * FRACTAL_COLS + col % FRACTAL_COLS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_own_byte() {
        for (rows, cols) in [(1, 1), (16, 32), (17, 33), (40, 96)] {
            let mut taken = vec![false; usize::try_from(packed_bytes(rows, cols)).unwrap()];
            for row in 0..rows {
                for col in 0..cols {
                    let index = usize::try_from(packed_index(rows, row, col)).unwrap();
                    assert!(!std::mem::replace(&mut taken[index], true));
                }
            }
        }
    }
}
