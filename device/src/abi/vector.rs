//! Elementwise instructions and reductions of the vector core.

use super::types::{BinaryOp, DType, TileView, UnaryOp};
use super::{check_same_region, place, runs, unsupported};
use crate::checked::Agent;
use crate::compute::convert::f16_to_f32;
use crate::compute::elementwise::{Binary, Half, Number, Unary, map, zip};
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
pub(super) unsafe fn map_tile<F: Unary>(
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
    let names = ["TADD", "TSUB", "TMUL", "TDIV", "TMAX", "TMIN"];
    core.track(names[op as usize], Agent::V, |i| {
        i.reads(a);
        i.reads(b);
        i.writes(target);
    });
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
    let names = ["TADDS", "TSUBS", "TMULS", "TDIVS", "TMAXS", "TMINS"];
    core.track(names[op as usize], Agent::V, |i| {
        i.reads(source);
        i.writes(target);
    });
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
    core.track(["TABS", "TEXP", "TNEG"][op as usize], Agent::V, |i| {
        i.reads(source);
        i.writes(target);
    });
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
    core.track("TEXPANDS", Agent::V, |i| i.writes(target));
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

/// `TROWMAX`: the largest element of each row.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
unsafe extern "C" fn megamoe_dev_row_max(target: &TileView, source: &TileView, tmp: &TileView) {
    // SAFETY: the reference ends with this function, which pauses through it only.
    let core = unsafe { Core::current() };
    let (to, from) = (
        place(core, "TROWMAX", target),
        place(core, "TROWMAX", source),
    );
    if source.valid_cols == 0 || source.valid_rows != target.valid_rows {
        core.fail("TROWMAX: rows of source and target differ, or a row is empty");
    }
    core.track("TROWMAX", Agent::V, |i| {
        i.reads(source);
        i.writes(tmp);
        i.writes(target);
    });
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
