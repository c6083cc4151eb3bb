//! Columns of fractals: 32 bytes of each row, row after row.

/// Bytes of a row of a fractal.
pub const C0_BYTES: usize = 32;

/// Columns of fractals, and how far apart they lie.
#[derive(Clone, Copy, Debug)]
pub struct Columns<P> {
    /// The first row of the first column.
    pub data: P,
    /// Bytes from one column to the next.
    pub stride: usize,
}

/// Copies `rows` of each of `count` columns.
///
/// # Safety
/// The rows are valid in both, and apart.
pub unsafe fn copy_columns(
    target: Columns<*mut u8>,
    source: Columns<*const u8>,
    (rows, count): (usize, usize),
) {
    for column in 0..count {
        // SAFETY: the column exists in both.
        unsafe {
            std::ptr::copy_nonoverlapping(
                source.data.add(column * source.stride),
                target.data.add(column * target.stride),
                rows * C0_BYTES,
            );
        }
    }
}
