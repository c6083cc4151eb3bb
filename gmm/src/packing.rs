//! Weights to and from the packed layout of [`moe_core::weights`].

use moe_core::weights::{packed_bytes, packed_index};

/// A matrix whose length does not fit its shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a {what} matrix of {rows} x {cols} has {want} bytes, got {got}")]
pub struct PackError {
    /// `plain` or `packed`.
    pub what: &'static str,
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Bytes needed.
    pub want: u64,
    /// Bytes given.
    pub got: u64,
}

/// Packs a row-major `[rows, cols]` matrix; padding is zero.
///
/// # Errors
/// [`PackError`] when `plain` has another length.
pub fn pack(plain: &[i8], rows: u64, cols: u64) -> Result<Vec<i8>, PackError> {
    check("plain", plain.len(), rows, cols, rows * cols)?;
    let mut packed = vec![0; packed_bytes(rows, cols) as usize];
    for (row, values) in (0..rows).zip(plain.chunks_exact(cols.max(1) as usize)) {
        for (col, &value) in (0..cols).zip(values) {
            packed[packed_index(rows, row, col) as usize] = value;
        }
    }
    Ok(packed)
}

/// Unpacks to a row-major `[rows, cols]` matrix.
///
/// # Errors
/// [`PackError`] when `packed` has another length.
pub fn unpack(packed: &[i8], rows: u64, cols: u64) -> Result<Vec<i8>, PackError> {
    check("packed", packed.len(), rows, cols, packed_bytes(rows, cols))?;
    let element = |row, col| packed[packed_index(rows, row, col) as usize];
    Ok((0..rows)
        .flat_map(|row| (0..cols).map(move |col| element(row, col)))
        .collect())
}

fn check(what: &'static str, got: usize, rows: u64, cols: u64, want: u64) -> Result<(), PackError> {
    let got = got as u64;
    if got == want {
        Ok(())
    } else {
        Err(PackError {
            what,
            rows,
            cols,
            want,
            got,
        })
    }
}
