//! Instructions of the matrix core.

use super::types::{DType, GmLayout, GmView, Memory, TileLayout, TileView};
use super::{place, unsupported};
use crate::checked::Agent;
use crate::compute::convert::f32_to_f16;
use crate::compute::elementwise::{Unary, map};
use crate::compute::fractal::{C0_BYTES, Columns, copy_columns};
use crate::compute::matmul::{self, Left, Product, Right};
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
    core.track("TEXTRACT", Agent::Mte1, |i| {
        i.reads_part(source, target, (row, col));
        i.writes(target);
    });
    match target.memory() {
        Memory::L0a => extract_left(core, target, source, (row as usize, col as usize)),
        Memory::L0b => extract_right(core, target, source, (row as usize, col as usize)),
        memory => core.fail(&format!("TEXTRACT to {memory:?} is not supported")),
    }
}

/// Offset of the piece of 32 bytes that holds `(row, col)` of a tile in L1, and bytes to the next of its row.
fn piece_of(source: &TileView, (row, col): (usize, usize)) -> (usize, usize) {
    let stride = source.rows as usize * 32;
    ((col / 32) * stride + row * 32, stride)
}

fn extract_left(core: &mut Core, target: &TileView, source: &TileView, place_in: (usize, usize)) {
    core.settle_constants(Memory::L1, &source.bytes());
    let (to, from) = (
        place(core, "TEXTRACT", target),
        place(core, "TEXTRACT", source),
    );
    let (rows, k) = (target.valid_rows as usize, target.valid_cols as usize);
    let (first, stride) = piece_of(source, place_in);
    let unit = target.address as usize / 32;
    core.left_rows[unit] = rows;
    let sums = &mut core.left_sums[unit..unit + rows];
    // SAFETY: both tiles have been placed, and the part lies in the source.
    unsafe {
        matmul::copy_left(to, from.add(first), stride, (rows, k));
        matmul::row_sums(Level::detect(), to, rows * 32, k, sums);
    }
}

fn extract_right(core: &mut Core, target: &TileView, source: &TileView, place_in: (usize, usize)) {
    let to = place(core, "TEXTRACT", target);
    let (rows, cols) = (target.valid_rows as usize, target.valid_cols as usize);
    let taken = target.bytes();
    core.replace_constants(Memory::L0b, &taken);
    let whole = core
        .constants(Memory::L1)
        .at(source.address as usize, source.rows as usize);
    let place_of = (taken.start, target.rows as usize, taken.len());
    if let Some(part) = whole.and_then(|tile| tile.part(place_in, (rows, cols), place_of)) {
        core.constants(Memory::L0b).put(part);
        return;
    }
    core.settle_constants(Memory::L1, &source.bytes());
    let from = place(core, "TEXTRACT", source);
    let (first, stride) = piece_of(source, place_in);
    let to = Columns {
        data: to,
        stride: target.rows as usize * C0_BYTES,
    };
    // SAFETY: both tiles have been placed, and the part lies in the source.
    unsafe {
        let data = from.add(first).cast_const();
        let from = Columns { data, stride };
        copy_columns(to, from, (rows, cols.div_ceil(C0_BYTES)));
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
    core.track("TMATMUL", Agent::M, |i| {
        i.reads(a);
        i.reads(b);
        if accumulate != 0 {
            i.reads(c);
        }
        i.writes(c);
    });
    let right = right_operand(core, b);
    let left = place(core, "TMATMUL", a);
    let to = place(core, "TMATMUL", c).cast::<i32>();
    let product = Product {
        m: m as usize,
        n: n as usize,
        k: k as usize,
        c_stride: c.cols as usize,
        accumulate: accumulate != 0,
    };
    let unit = a.address as usize / 32;
    let rows = core.left_rows[unit];
    if rows < product.m {
        core.fail(&format!(
            "TMATMUL: {m} rows of a left operand that was extracted with {rows}"
        ));
    }
    let left = Left {
        data: left,
        piece_stride: rows * 32,
        sums: &core.left_sums[unit..unit + product.m],
    };
    let scratch = core.matmul_scratch.as_deref_mut();
    let scratch = scratch.expect("matrix cores have it, and only they have L0");
    // SAFETY: all three tiles have been placed and fit each other.
    unsafe { matmul::multiply(Level::detect(), &product, left, right, scratch, to) }
}

/// Where the right operand lies: in L0B, or still in constant memory.
fn right_operand(core: &mut Core, b: &TileView) -> Right {
    let rows = b.rows as usize;
    let data = place(core, "TMATMUL", b);
    let valid = (b.valid_rows as usize, b.valid_cols as usize);
    let constants = core.constants(Memory::L0b);
    let constant = constants.at(b.address as usize, rows);
    if let Some(tile) = constant.filter(|tile| tile.holds((0, 0), valid)) {
        return Right {
            data: tile.source.data,
            block_stride: tile.source.stride,
        };
    }
    core.settle_constants(Memory::L0b, &b.bytes());
    Right {
        data,
        block_stride: rows * 32,
    }
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
    core.track("TSTORE", Agent::Fix, |i| {
        i.reads(acc);
        if scale_kind == 2 {
            // SAFETY: as above.
            let scales = unsafe { &*scales };
            let valid_cols = acc.valid_cols;
            i.reads(&TileView {
                valid_cols,
                ..*scales
            });
        }
        i.writes_global(gm, acc);
    });
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
