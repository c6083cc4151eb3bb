//! Instructions of the matrix core.

use super::types::{DType, GmLayout, GmView, Memory, TileLayout, TileView};
use super::{place, unsupported};
use crate::compute::convert::f32_to_f16;
use crate::compute::elementwise::{Unary, map};
use crate::compute::matmul::{self, Product};
use crate::compute::{Level, multiversion};
use crate::runtime::core::Core;

/// `TEXTRACT`: a part of a tile in L1 becomes an operand of the matrix unit.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_extract(target: &TileView, source: &TileView, row: u32, col: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (rows, cols) = (target.valid_rows, target.valid_cols);
    if source.layout() != TileLayout::Nz || source.dtype() != DType::I8 {
        let layout = source.layout();
        core.fail(&format!(
            "TEXTRACT takes int8 in Nz layout, got {:?} in {layout:?}",
            source.dtype()
        ));
    }
    if row + rows > source.rows || col + cols > source.cols {
        let (from_rows, from_cols) = (source.rows, source.cols);
        core.fail(&format!(
            "TEXTRACT: {rows} x {cols} at ({row}, {col}) of {from_rows} x {from_cols}"
        ));
    }
    if !col.is_multiple_of(32) || !target.cols.is_multiple_of(32) {
        core.fail(&format!(
            "TEXTRACT: column {col} and width {} must be multiples of 32",
            target.cols
        ));
    }
    let (to, from) = (
        place(core, "TEXTRACT", target),
        place(core, "TEXTRACT", source),
    );
    let column_stride = source.rows as usize * 32;
    let first = (col as usize / 32) * column_stride + row as usize * 32;
    let shape = |k: u32, k_len: u32, other: u32| (other as usize, k as usize, k_len as usize);
    match target.memory() {
        Memory::L0a => {
            let sizes = shape(cols, target.cols, rows);
            let sums = target.address as usize / 32;
            // SAFETY: both tiles have been placed, and the part lies in the source.
            unsafe {
                matmul::pack_left(to, from.add(first), column_stride, sizes);
                matmul::row_sums(to, sizes, &mut core.left_sums[sums..]);
            }
        }
        Memory::L0b => {
            let sizes = (
                rows as usize,
                (cols as usize).div_ceil(32),
                target.rows as usize,
            );
            // SAFETY: as above.
            unsafe {
                matmul::pack_right(Level::detect(), to, from.add(first), column_stride, sizes);
            }
        }
        memory => core.fail(&format!("TEXTRACT to {memory:?} is not supported")),
    }
}

/// `TMATMUL` and `TMATMUL_ACC`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_matmul(c: &TileView, a: &TileView, b: &TileView, accumulate: u32) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    if (a.dtype(), b.dtype(), c.dtype()) != (DType::I8, DType::I8, DType::I32) {
        core.fail("TMATMUL takes int8 x int8 -> int32");
    }
    let (m, k, n) = (a.valid_rows, a.valid_cols, b.valid_cols);
    let fit = a.cols == b.rows && k == b.valid_rows && m <= c.rows && n <= c.cols;
    if !fit || m == 0 || k == 0 || n == 0 || m.max(n).max(k) > 4095 {
        core.fail(&format!(
            "TMATMUL: {m} x {k} by {} x {n} in tiles {} x {}, {} x {}, {} x {}",
            b.valid_rows, a.rows, a.cols, b.rows, b.cols, c.rows, c.cols
        ));
    }
    let (left, right) = (place(core, "TMATMUL", a), place(core, "TMATMUL", b));
    let to = place(core, "TMATMUL", c).cast::<i32>();
    let product = Product {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        k_len: a.cols as usize,
        c_stride: c.cols as usize,
        accumulate: accumulate != 0,
    };
    let sums = &core.left_sums[a.address as usize / 32..];
    // SAFETY: all three tiles have been placed and fit each other.
    unsafe { matmul::multiply(Level::detect(), &product, left, right, sums, to) }
}

/// The fixpipe's product, limited to what a half holds.
struct Scaled {
    scale: f32,
}

#[inline(always)]
fn scaled_half(acc: i32, scale: f32) -> u16 {
    const LARGEST: f32 = 65504.0;
    let value = acc as f32 * scale;
    let value = if value > LARGEST { LARGEST } else { value };
    f32_to_f16(if value < -LARGEST { -LARGEST } else { value })
}

impl Unary for Scaled {
    type In = i32;
    type Out = u16;
    #[inline(always)]
    fn apply(&self, acc: i32) -> u16 {
        scaled_half(acc, self.scale)
    }
}

#[inline(always)]
unsafe fn scale_columns_body(dst: *mut u16, acc: *const i32, scales: *const u64, len: usize) {
    const PIECE: usize = 32;
    // The unit keeps the sign, 8 bits of exponent and 10 of mantissa.
    const KEPT: u32 = 0xffff_e000;
    let mut start = 0;
    while start < len {
        let count = PIECE.min(len - start);
        let (mut accs, mut words) = ([0i32; PIECE], [0u64; PIECE]);
        let mut halves = [0u16; PIECE];
        // SAFETY: the caller gives `len` elements of all three.
        unsafe {
            std::ptr::copy_nonoverlapping(acc.add(start), accs.as_mut_ptr(), count);
            std::ptr::copy_nonoverlapping(scales.add(start), words.as_mut_ptr(), count);
        }
        for i in 0..PIECE {
            halves[i] = scaled_half(accs[i], f32::from_bits(words[i] as u32 & KEPT));
        }
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(halves.as_ptr(), dst.add(start), count) };
        start += count;
    }
}

multiversion! {
    /// `dst[i] = f16(clamp(acc[i] * scale[i]))`.
    ///
    /// # Safety
    /// `len` elements of all three are valid and apart. The processor has `level`.
    unsafe fn scale_columns[](dst: *mut u16, acc: *const i32, scales: *const u64, len: usize) = scale_columns_body
}

/// `TSTORE` of accumulators: as they are, with one scale for all (`scale_kind` 1, fp32 bits in `scalar`),
/// or with one for each column (`TSTORE_FP`, `scale_kind` 2).
///
/// # Safety
/// See the module; `scales` is valid for `scale_kind` 2.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_store_acc(
    gm: &GmView,
    acc: &TileView,
    scale_kind: u32,
    scalar: u64,
    scales: *const TileView,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    core.maybe_preempt();
    let from = place(core, "TSTORE", acc).cast::<i32>();
    let cols = acc.valid_cols as usize;
    let wants_half = scale_kind != 0;
    let target = DType::of(gm.dtype as u8);
    if GmLayout::ALL[gm.layout as usize] != GmLayout::Nd
        || acc.dtype() != DType::I32
        || target != (if wants_half { DType::F16 } else { DType::I32 })
    {
        core.fail(&format!(
            "TSTORE of {:?} accumulators to {target:?} is not supported",
            acc.dtype()
        ));
    }
    let scale_words = if scale_kind == 2 {
        // SAFETY: as the caller promises.
        let scales = unsafe { &*scales };
        if scales.memory() != Memory::Fixpipe || scales.valid_cols < acc.valid_cols {
            unsupported(core, "TSTORE_FP with these scales:", scales);
        }
        place(core, "TSTORE_FP", scales).cast::<u64>()
    } else {
        std::ptr::null_mut()
    };
    for row in 0..acc.valid_rows as usize {
        let to = gm
            .data
            .wrapping_add_signed(row as i64 * gm.stride[3] * target.bytes() as i64);
        // SAFETY: the row is in the tile; the kernel vouches for global memory.
        unsafe {
            let from = from.add(row * acc.cols as usize);
            match scale_kind {
                0 => std::ptr::copy_nonoverlapping(from, to as *mut i32, cols),
                1 => {
                    let f = Scaled {
                        scale: f32::from_bits(scalar as u32),
                    };
                    map(Level::detect(), &f, to as *mut u16, from, cols);
                }
                _ => scale_columns(Level::detect(), to as *mut u16, from, scale_words, cols),
            }
        }
    }
}
