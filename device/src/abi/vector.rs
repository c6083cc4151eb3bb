//! Instructions of the vector core.

use super::types::{BinaryOp, DType, Round, TileView, UnaryOp};
use super::{check_same_region, place, runs, unsupported};
use crate::compute::convert::{
    bf16_to_f32, f16_to_f32, f32_to_bf16_rounded, f32_to_f16_rounded, f32_to_i8, f32_to_i16,
    f32_to_i32, f32_to_u8,
};
use crate::compute::elementwise::{Binary, Half, Number, Unary, map, zip};
use crate::compute::sort::{BLOCK, Pair, merge, sort_block};
use crate::compute::{Level, reduce};
use crate::runtime::core::Core;

macro_rules! unary {
    ($name:ident<$t:ident>, $in:ty => $out:ty, |$self:ident, $value:ident| $body:expr, { $($field:ident: $ty:ty),* }) => {
        struct $name<$t> { $($field: $ty,)* }
        impl<$t: Number> Unary for $name<$t> {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply(&$self, $value: $in) -> $out { $body }
        }
    };
}

/// Runs `map` over the rows of two tiles.
unsafe fn map_tile<F: Unary>(
    core: &mut Core,
    name: &str,
    f: &F,
    target: &TileView,
    source: &TileView,
) {
    check_same_region(core, name, &[target, source]);
    let (to, from) = (place(core, name, target), place(core, name, source));
    let (rows, len) = runs(&[target, source]);
    for row in 0..rows {
        // SAFETY: both rows have been placed.
        unsafe {
            let to = to.cast::<F::Out>().add(row * target.pitch());
            let from = from.cast::<F::In>().add(row * source.pitch());
            map(Level::detect(), f, to, from, len);
        }
    }
}

struct BinaryFn<T, const OP: u8>(std::marker::PhantomData<T>);

impl<T: Number, const OP: u8> Binary for BinaryFn<T, OP> {
    type Element = T;
    #[inline(always)]
    fn apply(&self, a: T, b: T) -> T {
        operate::<T, OP>(a, b)
    }
}

#[inline(always)]
fn operate<T: Number, const OP: u8>(a: T, b: T) -> T {
    const ADD: u8 = BinaryOp::Add as u8;
    const SUB: u8 = BinaryOp::Sub as u8;
    const MUL: u8 = BinaryOp::Mul as u8;
    const DIV: u8 = BinaryOp::Div as u8;
    const MAX: u8 = BinaryOp::Max as u8;
    match OP {
        ADD => a.add(b),
        SUB => a.sub(b),
        MUL => a.mul(b),
        DIV => a.div(b),
        MAX => a.max(b),
        _ => a.min(b),
    }
}

struct ScalarFn<T, const OP: u8, const SCALAR_FIRST: bool>(T);

impl<T: Number, const OP: u8, const SCALAR_FIRST: bool> Unary for ScalarFn<T, OP, SCALAR_FIRST> {
    type In = T;
    type Out = T;
    #[inline(always)]
    fn apply(&self, value: T) -> T {
        if SCALAR_FIRST {
            operate::<T, OP>(self.0, value)
        } else {
            operate::<T, OP>(value, self.0)
        }
    }
}

macro_rules! for_op {
    ($op:expr, $call:ident!($($args:tt)*)) => {
        match $op {
            0 => $call!(0, $($args)*),
            1 => $call!(1, $($args)*),
            2 => $call!(2, $($args)*),
            3 => $call!(3, $($args)*),
            4 => $call!(4, $($args)*),
            _ => $call!(5, $($args)*),
        }
    };
}

/// `TADD` and the like: `target = a op b`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_binary(op: u32, target: &TileView, a: &TileView, b: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    macro_rules! with {
        ($op:literal, $ty:ty) => {
            // SAFETY: as for this function.
            unsafe {
                zip_tile(
                    core,
                    &BinaryFn::<$ty, $op>(std::marker::PhantomData),
                    target,
                    a,
                    b,
                )
            }
        };
    }
    match target.dtype() {
        DType::F32 => for_op!(op, with!(f32)),
        DType::I32 => for_op!(op, with!(i32)),
        DType::I16 => for_op!(op, with!(i16)),
        DType::F16 => for_op!(op, with!(Half)),
        _ => unsupported(core, "an elementwise instruction", target),
    }
}

unsafe fn zip_tile<F: Binary>(
    core: &mut Core,
    f: &F,
    target: &TileView,
    a: &TileView,
    b: &TileView,
) {
    let name = "an elementwise instruction";
    check_same_region(core, name, &[target, a, b]);
    let (to, left, right) = (
        place(core, name, target),
        place(core, name, a),
        place(core, name, b),
    );
    let (rows, len) = runs(&[target, a, b]);
    for row in 0..rows {
        // SAFETY: all three rows have been placed.
        unsafe {
            let to = to.cast::<F::Element>().add(row * target.pitch());
            let left = left.cast::<F::Element>().add(row * a.pitch());
            let right = right.cast::<F::Element>().add(row * b.pitch());
            zip(Level::detect(), f, to, left, right, len);
        }
    }
}

/// `TADDS` and the like: `target = source op scalar`, or `scalar op source`. The scalar comes as bits.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_scalar(
    op: u32,
    scalar_first: u32,
    target: &TileView,
    source: &TileView,
    bits: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let name = "an instruction with a scalar";
    macro_rules! with {
        ($op:literal, $ty:ty, $scalar:expr) => {
            if scalar_first == 0 {
                // SAFETY: as for this function.
                unsafe {
                    map_tile(
                        core,
                        name,
                        &ScalarFn::<$ty, $op, false>($scalar),
                        target,
                        source,
                    )
                }
            } else {
                // SAFETY: as for this function.
                unsafe {
                    map_tile(
                        core,
                        name,
                        &ScalarFn::<$ty, $op, true>($scalar),
                        target,
                        source,
                    )
                }
            }
        };
    }
    match target.dtype() {
        DType::F32 => for_op!(op, with!(f32, f32::from_bits(bits))),
        DType::I32 => for_op!(op, with!(i32, bits as i32)),
        DType::I16 => for_op!(op, with!(i16, bits as i16)),
        DType::F16 => for_op!(op, with!(Half, Half(bits as u16))),
        _ => unsupported(core, name, target),
    }
}

unary!(AbsFn<T>, T => T, |self, value| value.abs(), { kind: std::marker::PhantomData<T> });
unary!(NegFn<T>, T => T, |self, value| value.neg(), { kind: std::marker::PhantomData<T> });

struct ExpFn;

impl Unary for ExpFn {
    type In = f32;
    type Out = f32;
    #[inline(always)]
    fn apply(&self, value: f32) -> f32 {
        moe_core::numerics::exp(value)
    }
}

struct ExpHalfFn;

impl Unary for ExpHalfFn {
    type In = u16;
    type Out = u16;
    #[inline(always)]
    fn apply(&self, value: u16) -> u16 {
        crate::compute::convert::f32_to_f16(moe_core::numerics::exp(f16_to_f32(value)))
    }
}

/// `TABS`, `TEXP`, `TNEG`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_unary(op: u32, target: &TileView, source: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    const ABS: u32 = UnaryOp::Abs as u32;
    const EXP: u32 = UnaryOp::Exp as u32;
    let kind = std::marker::PhantomData;
    macro_rules! with {
        ($name:literal, $f:expr) => {
            // SAFETY: as for this function.
            unsafe { map_tile(core, $name, &$f, target, source) }
        };
    }
    match (op, target.dtype()) {
        (ABS, DType::F32) => with!("TABS", AbsFn::<f32> { kind }),
        (ABS, DType::F16) => with!(
            "TABS",
            AbsFn::<Half> {
                kind: std::marker::PhantomData
            }
        ),
        (ABS, DType::I32) => with!(
            "TABS",
            AbsFn::<i32> {
                kind: std::marker::PhantomData
            }
        ),
        (EXP, DType::F32) => with!("TEXP", ExpFn),
        (EXP, DType::F16) => with!("TEXP", ExpHalfFn),
        (_, DType::F32) => with!(
            "TNEG",
            NegFn::<f32> {
                kind: std::marker::PhantomData
            }
        ),
        (_, DType::F16) => with!(
            "TNEG",
            NegFn::<Half> {
                kind: std::marker::PhantomData
            }
        ),
        (_, DType::I32) => with!(
            "TNEG",
            NegFn::<i32> {
                kind: std::marker::PhantomData
            }
        ),
        _ => unsupported(core, "an instruction of one operand", target),
    }
}

/// `TEXPANDS`: a scalar everywhere. It comes as bits.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_fill(target: &TileView, bits: u64) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    check_same_region(core, "TEXPANDS", &[target]);
    let to = place(core, "TEXPANDS", target);
    let bytes = target.dtype().bytes();
    for row in 0..target.valid_rows as usize {
        for col in 0..target.valid_cols as usize {
            let element = (row * target.pitch() + col) * bytes;
            // SAFETY: the element has been placed; its size is that of the type.
            unsafe {
                std::ptr::copy_nonoverlapping(bits.to_le_bytes().as_ptr(), to.add(element), bytes);
            }
        }
    }
}

macro_rules! conversion {
    ($name:ident, $in:ty => $out:ty, |$value:ident, $round:ident, $saturate:ident| $body:expr) => {
        struct $name<const ROUND: u8, const SATURATE: bool>;
        impl<const ROUND: u8, const SATURATE: bool> Unary for $name<ROUND, SATURATE> {
            type In = $in;
            type Out = $out;
            #[inline(always)]
            fn apply(&self, $value: $in) -> $out {
                let ($round, $saturate) = (const { rounding(ROUND) }, SATURATE);
                // Not every conversion has a choice.
                let _ = ($round, $saturate);
                $body
            }
        }
    };
}

const fn rounding(code: u8) -> Round {
    match code {
        0 => Round::None,
        1 => Round::Rint,
        2 => Round::Away,
        3 => Round::Floor,
        4 => Round::Ceil,
        5 => Round::Trunc,
        _ => Round::Odd,
    }
}

conversion!(F32ToF16, f32 => u16, |v, round, saturate| {
    let half = f32_to_f16_rounded(v, round);
    if saturate && half & 0x7fff == 0x7c00 && v.is_finite() { half - 1 } else { half }
});
conversion!(F32ToBf16, f32 => u16, |v, round, saturate| f32_to_bf16_rounded(v, round));
conversion!(F32ToF32, f32 => f32, |v, round, saturate| crate::compute::convert::round_integral(v, round));
conversion!(F32ToI32, f32 => i32, |v, round, saturate| f32_to_i32(v, round));
conversion!(F32ToI16, f32 => i16, |v, round, saturate| f32_to_i16(v, round, saturate));
conversion!(F16ToF32, u16 => f32, |v, round, saturate| f16_to_f32(v));
conversion!(F16ToI32, u16 => i32, |v, round, saturate| f32_to_i32(f16_to_f32(v), round));
conversion!(F16ToI16, u16 => i16, |v, round, saturate| f32_to_i16(f16_to_f32(v), round, saturate));
conversion!(F16ToI8, u16 => i8, |v, round, saturate| f32_to_i8(f16_to_f32(v), round, saturate));
conversion!(F16ToU8, u16 => u8, |v, round, saturate| f32_to_u8(f16_to_f32(v), round, saturate));
conversion!(Bf16ToF32, u16 => f32, |v, round, saturate| bf16_to_f32(v));
conversion!(Bf16ToI32, u16 => i32, |v, round, saturate| f32_to_i32(bf16_to_f32(v), round));
conversion!(I32ToF32, i32 => f32, |v, round, saturate| v as f32);
conversion!(I32ToI16, i32 => i16, |v, round, saturate| {
    if saturate { v.clamp(i16::MIN.into(), i16::MAX.into()) as i16 } else { v as i16 }
});
conversion!(I16ToF32, i16 => f32, |v, round, saturate| f32::from(v));
conversion!(I16ToF16, i16 => u16, |v, round, saturate| f32_to_f16_rounded(f32::from(v), round));
conversion!(I8ToF16, i8 => u16, |v, round, saturate| f32_to_f16_rounded(f32::from(v), round));
conversion!(U8ToF16, u8 => u16, |v, round, saturate| f32_to_f16_rounded(f32::from(v), round));

/// `TCVT`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_convert(
    target: &TileView,
    source: &TileView,
    round: u32,
    saturate: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    macro_rules! with_round {
        ($f:ident, $saturate:literal) => {
            match round {
                // SAFETY: as for this function.
                0 | 1 => unsafe { map_tile(core, "TCVT", &$f::<1, $saturate>, target, source) },
                // SAFETY: as for this function.
                2 => unsafe { map_tile(core, "TCVT", &$f::<2, $saturate>, target, source) },
                // SAFETY: as for this function.
                3 => unsafe { map_tile(core, "TCVT", &$f::<3, $saturate>, target, source) },
                // SAFETY: as for this function.
                4 => unsafe { map_tile(core, "TCVT", &$f::<4, $saturate>, target, source) },
                // SAFETY: as for this function.
                5 => unsafe { map_tile(core, "TCVT", &$f::<5, $saturate>, target, source) },
                // SAFETY: as for this function.
                _ => unsafe { map_tile(core, "TCVT", &$f::<6, $saturate>, target, source) },
            }
        };
    }
    macro_rules! with {
        ($f:ident) => {
            if saturate == 0 {
                with_round!($f, false)
            } else {
                with_round!($f, true)
            }
        };
    }
    use DType::{Bf16, F16, F32, I8, I16, I32, U8};
    match (source.dtype(), target.dtype()) {
        (F32, F16) => with!(F32ToF16),
        (F32, Bf16) => with!(F32ToBf16),
        (F32, F32) => with!(F32ToF32),
        (F32, I32) => with!(F32ToI32),
        (F32, I16) => with!(F32ToI16),
        (F16, F32) => with!(F16ToF32),
        (F16, I32) => with!(F16ToI32),
        (F16, I16) => with!(F16ToI16),
        (F16, I8) => with!(F16ToI8),
        (F16, U8) => with!(F16ToU8),
        (Bf16, F32) => with!(Bf16ToF32),
        (Bf16, I32) => with!(Bf16ToI32),
        (I32, F32) => with!(I32ToF32),
        (I32, I16) => with!(I32ToI16),
        (I16, F32) => with!(I16ToF32),
        (I16, F16) => with!(I16ToF16),
        (I8, F16) => with!(I8ToF16),
        (U8, F16) => with!(U8ToF16),
        (from, to) => core.fail(&format!("TCVT from {from:?} to {to:?} is not supported")),
    }
}

/// `TROWMAX`: the largest element of each row.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_row_max(target: &TileView, source: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (to, from) = (
        place(core, "TROWMAX", target),
        place(core, "TROWMAX", source),
    );
    if source.valid_cols == 0 || source.valid_rows != target.valid_rows {
        core.fail("TROWMAX: rows of source and target differ, or a row is empty");
    }
    let len = source.valid_cols as usize;
    for row in 0..source.valid_rows as usize {
        let (to_row, from_row) = (row * target.pitch(), row * source.pitch());
        macro_rules! with {
            ($ty:ty) => {
                // SAFETY: both rows have been placed.
                unsafe {
                    let (to, from) = (
                        to.cast::<$ty>().add(to_row),
                        from.cast::<$ty>().add(from_row),
                    );
                    reduce::max(Level::detect(), to, from, len);
                }
            };
        }
        match source.dtype() {
            DType::F32 => with!(f32),
            DType::F16 => with!(Half),
            DType::I32 => with!(i32),
            DType::I16 => with!(i16),
            _ => unsupported(core, "TROWMAX", source),
        }
    }
}

/// `TSORT32`: each 32 values with their indices, descending.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_sort32(target: &TileView, source: &TileView, index: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    if source.dtype() != DType::F32 || index.dtype().bytes() != 4 {
        unsupported(core, "TSORT32", source);
    }
    let (to, values) = (
        place(core, "TSORT32", target),
        place(core, "TSORT32", source),
    );
    let indices = place(core, "TSORT32", index);
    let len = source.valid_cols as usize;
    if !len.is_multiple_of(BLOCK) || target.cols < 2 * source.valid_cols {
        core.fail(&format!(
            "TSORT32: {len} values to a tile of {} columns",
            target.cols
        ));
    }
    for row in 0..source.valid_rows as usize {
        for start in (0..len).step_by(BLOCK) {
            let mut block = [Pair::default(); BLOCK];
            for (i, pair) in block.iter_mut().enumerate() {
                // SAFETY: the elements have been placed.
                unsafe {
                    pair.value = values
                        .cast::<f32>()
                        .add(row * source.pitch() + start + i)
                        .read();
                    pair.index = indices
                        .cast::<u32>()
                        .add(row * index.pitch() + start + i)
                        .read();
                }
            }
            sort_block(&mut block);
            // SAFETY: the target has room for two words for each value, as checked.
            unsafe {
                let to = to.cast::<u32>().add(row * target.pitch() + 2 * start);
                to.cast::<[Pair; BLOCK]>().write_unaligned(block);
            }
        }
    }
}

/// Pairs of a tile with one row.
///
/// # Safety
/// The tile has been placed at `from`.
unsafe fn pairs(from: *const u8, len: usize) -> Vec<Pair> {
    // SAFETY: as the caller promises.
    (0..len)
        .map(|i| unsafe { from.cast::<Pair>().add(i).read_unaligned() })
        .collect()
}

/// `TMRGSORT` of one tile: every four blocks of `block_len` words become one sorted list.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_merge_blocks(
    target: &TileView,
    source: &TileView,
    block_len: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (to, from) = (
        place(core, "TMRGSORT", target),
        place(core, "TMRGSORT", source),
    );
    let words = source.valid_cols;
    if block_len == 0 || !block_len.is_multiple_of(64) || !words.is_multiple_of(4 * block_len) {
        core.fail(&format!("TMRGSORT: {words} words in blocks of {block_len}"));
    }
    // SAFETY: placed above.
    let all = unsafe { pairs(from, words as usize / 2) };
    let mut merged = Vec::with_capacity(all.len());
    for group in all.chunks(2 * block_len as usize) {
        let lists: Vec<&[Pair]> = group.chunks(block_len as usize / 2).collect();
        merge(&lists, false, &mut merged);
    }
    // SAFETY: the target has been placed with the same number of words.
    unsafe { write_pairs(core, target, to, &merged) }
}

unsafe fn write_pairs(core: &Core, target: &TileView, to: *mut u8, merged: &[Pair]) {
    if 2 * merged.len() > target.cols as usize {
        let (words, cols) = (2 * merged.len(), target.cols);
        core.fail(&format!("TMRGSORT: {words} words to a tile of {cols}"));
    }
    // SAFETY: the tile has room, as checked, and has been placed.
    unsafe { std::ptr::copy_nonoverlapping(merged.as_ptr().cast::<u8>(), to, 8 * merged.len()) }
}

/// `TMRGSORT` of two to four tiles. `taken` gets the number of pairs taken from each.
///
/// # Safety
/// See the module; `sources` has `num_sources` entries and `taken` four.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_merge(
    target: &TileView,
    sources: *const TileView,
    num_sources: u32,
    stop_early: u32,
    taken: *mut u16,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let whole = TileView {
        valid_cols: target.cols,
        ..*target
    };
    let to = place(core, "TMRGSORT", &whole);
    // SAFETY: as the caller promises.
    let sources = unsafe { std::slice::from_raw_parts(sources, num_sources as usize) };
    let mut lists = Vec::new();
    for source in sources {
        let from = place(core, "TMRGSORT", source);
        // SAFETY: placed just now.
        lists.push(unsafe { pairs(from, source.valid_cols as usize / 2) });
    }
    let lists: Vec<&[Pair]> = lists.iter().map(Vec::as_slice).collect();
    let mut merged = Vec::new();
    let counts = merge(&lists, stop_early != 0, &mut merged);
    // SAFETY: the whole target has been placed; `taken` has four entries.
    unsafe {
        write_pairs(core, target, to, &merged);
        for (i, count) in counts.into_iter().enumerate() {
            taken.add(i).write(count as u16);
        }
    }
}

/// `TGATHER` with a mask: every `step`-th element of each row, from `first` on.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_gather(
    target: &TileView,
    source: &TileView,
    first: u32,
    step: u32,
) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let from = place(core, "TGATHER", source);
    let count = source.valid_cols.saturating_sub(first).div_ceil(step);
    if count > target.cols {
        core.fail(&format!(
            "TGATHER: {count} elements to a tile of {} columns",
            target.cols
        ));
    }
    let to = place(
        core,
        "TGATHER",
        &TileView {
            valid_cols: count,
            ..*target
        },
    );
    let bytes = source.dtype().bytes();
    for row in 0..source.valid_rows as usize {
        for i in 0..count as usize {
            let element = row * source.pitch() + first as usize + i * step as usize;
            // SAFETY: both elements have been placed.
            unsafe {
                let to = to.add((row * target.pitch() + i) * bytes);
                std::ptr::copy(from.add(element * bytes), to, bytes);
            }
        }
    }
}

/// A half from a float, nearest even.
#[unsafe(no_mangle)]
extern "C" fn megamoe_dev_half_from_float(value: f32) -> u16 {
    crate::compute::convert::f32_to_f16(value)
}

/// A float from a half.
#[unsafe(no_mangle)]
extern "C" fn megamoe_dev_half_to_float(bits: u16) -> f32 {
    f16_to_f32(bits)
}

/// A bfloat16 from a float, nearest even.
#[unsafe(no_mangle)]
extern "C" fn megamoe_dev_bf16_from_float(value: f32) -> u16 {
    f32_to_bf16_rounded(value, Round::Rint)
}
