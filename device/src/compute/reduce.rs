//! Reductions along a row.

use super::elementwise::Number;
use super::multiversion;

const LANES: usize = 64;

#[inline(always)]
unsafe fn max_body<T: Number>(dst: *mut T, src: *const T, len: usize) {
    // SAFETY: the caller gives at least one element.
    let mut lanes = [unsafe { src.read() }; LANES];
    let mut start = 0;
    while start + LANES <= len {
        for (i, lane) in lanes.iter_mut().enumerate() {
            // SAFETY: below `len`.
            *lane = lane.max(unsafe { src.add(start + i).read() });
        }
        start += LANES;
    }
    let mut max = lanes.into_iter().fold(lanes[0], T::max);
    for i in start..len {
        // SAFETY: below `len`.
        max = max.max(unsafe { src.add(i).read() });
    }
    // SAFETY: the caller gives one element.
    unsafe { dst.write(max) };
}

multiversion! {
    /// Largest of `len` elements, at least one; a NaN wins.
    ///
    /// # Safety
    /// `len` elements of `src` and one of `dst` are valid. The processor has `level`.
    pub unsafe fn max[T: Number](dst: *mut T, src: *const T, len: usize) = max_body
}
