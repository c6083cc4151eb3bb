//! Elementwise functions over runs of elements.
//!
//! Source and destination may be the same memory, as tiles of an instruction may; a run is therefore
//! taken in pieces that are read whole before they are written.

use super::multiversion;

/// Elements that are read before any of them is written.
const PIECE: usize = 64;

/// A function of one element.
pub trait Unary {
    /// What it takes.
    type In: Copy + Default;
    /// What it gives.
    type Out: Copy + Default;
    /// Its value.
    fn apply(&self, value: Self::In) -> Self::Out;
}

/// A function of two elements.
pub trait Binary {
    /// What it takes and gives.
    type Element: Copy + Default;
    /// Its value.
    fn apply(&self, a: Self::Element, b: Self::Element) -> Self::Element;
}

/// Reads a piece at once, so that the compiler keeps them in registers.
#[inline(always)]
unsafe fn read<T: Copy>(source: *const T) -> [T; PIECE] {
    // SAFETY: the caller gives `PIECE` elements.
    unsafe { source.cast::<[T; PIECE]>().read_unaligned() }
}

/// Reads fewer than a piece; the rest is what `T` starts with.
#[inline(always)]
unsafe fn read_some<T: Copy + Default>(source: *const T, count: usize) -> [T; PIECE] {
    let mut piece = [T::default(); PIECE];
    // SAFETY: the caller gives `count` elements, fewer than a piece.
    unsafe { std::ptr::copy_nonoverlapping(source, piece.as_mut_ptr(), count) };
    piece
}

#[inline(always)]
unsafe fn map_body<F: Unary>(f: &F, dst: *mut F::Out, src: *const F::In, len: usize) {
    let whole = len / PIECE * PIECE;
    for start in (0..whole).step_by(PIECE) {
        // SAFETY: a whole piece of both lies below `len`.
        unsafe {
            let piece = read(src.add(start));
            let result: [F::Out; PIECE] = std::array::from_fn(|i| f.apply(piece[i]));
            dst.add(start)
                .cast::<[F::Out; PIECE]>()
                .write_unaligned(result);
        }
    }
    if whole < len {
        // SAFETY: the elements from `whole` to `len` are fewer than a piece.
        unsafe {
            let piece = read_some(src.add(whole), len - whole);
            let result: [F::Out; PIECE] = std::array::from_fn(|i| f.apply(piece[i]));
            std::ptr::copy_nonoverlapping(result.as_ptr(), dst.add(whole), len - whole);
        }
    }
}

#[inline(always)]
unsafe fn zip_body<F: Binary>(
    f: &F,
    dst: *mut F::Element,
    a: *const F::Element,
    b: *const F::Element,
    len: usize,
) {
    let whole = len / PIECE * PIECE;
    for start in (0..whole).step_by(PIECE) {
        // SAFETY: a whole piece of all three lies below `len`.
        unsafe {
            let (left, right) = (read(a.add(start)), read(b.add(start)));
            let result: [F::Element; PIECE] = std::array::from_fn(|i| f.apply(left[i], right[i]));
            dst.add(start)
                .cast::<[F::Element; PIECE]>()
                .write_unaligned(result);
        }
    }
    if whole < len {
        // SAFETY: the elements from `whole` to `len` are fewer than a piece.
        unsafe {
            let count = len - whole;
            let (left, right) = (
                read_some(a.add(whole), count),
                read_some(b.add(whole), count),
            );
            let result: [F::Element; PIECE] = std::array::from_fn(|i| f.apply(left[i], right[i]));
            std::ptr::copy_nonoverlapping(result.as_ptr(), dst.add(whole), count);
        }
    }
}

multiversion! {
    /// `dst[i] = f(src[i])`.
    ///
    /// # Safety
    /// `len` elements of both are valid; they are the same memory or apart. The processor has `level`.
    pub unsafe fn map[F: Unary](f: &F, dst: *mut F::Out, src: *const F::In, len: usize) = map_body
}

multiversion! {
    /// `dst[i] = f(a[i], b[i])`.
    ///
    /// # Safety
    /// `len` elements of all three are valid; any two are the same memory or apart. The processor has
    /// `level`.
    pub unsafe fn zip[F: Binary](
        f: &F, dst: *mut F::Element, a: *const F::Element, b: *const F::Element, len: usize,
    ) = zip_body
}

/// Numbers that vector instructions work on.
pub trait Number: Copy + Default + PartialOrd {
    /// Sum; integers wrap.
    fn add(self, other: Self) -> Self;
    /// Difference; integers wrap.
    fn sub(self, other: Self) -> Self;
    /// Product; integers wrap.
    fn mul(self, other: Self) -> Self;
    /// Quotient; a division of integers by zero gives zero.
    fn div(self, other: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// Negation.
    fn neg(self) -> Self;
    /// Whether it is not a number.
    fn is_nan(self) -> bool;

    /// The larger one; a NaN wins.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }

    /// The smaller one; a NaN wins.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }
}

impl Number for f32 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self / other
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f32::abs(self)
    }
    #[inline(always)]
    fn neg(self) -> Self {
        -self
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

macro_rules! integer {
    ($($ty:ty),*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self.checked_div(other).unwrap_or(0)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.wrapping_abs()
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
integer!(i32, i16);

/// A half: computed in fp32 and rounded once, which is exact for a single operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Half(pub u16);

impl Half {
    #[inline(always)]
    fn wide(self) -> f32 {
        super::convert::f16_to_f32(self.0)
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Self(super::convert::f32_to_f16(value))
    }
}

impl PartialOrd for Half {
    #[inline(always)]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.wide().partial_cmp(&other.wide())
    }
}

impl Number for Half {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::narrow(self.wide() + other.wide())
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::narrow(self.wide() - other.wide())
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self::narrow(self.wide() * other.wide())
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        Self::narrow(self.wide() / other.wide())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0 & 0x7fff)
    }
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0 ^ 0x8000)
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.0 & 0x7fff > 0x7c00
    }
}
