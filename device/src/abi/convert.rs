//! `TCVT`, and the scalar conversions of the headers' types.

use super::types::{DType, Round, TileView};
use super::vector::map_tile;
use crate::checked::Agent;
use crate::compute::convert::{
    bf16_to_f32, f16_to_f32, f32_to_bf16_rounded, f32_to_f16_rounded, f32_to_i8, f32_to_i16,
    f32_to_i32, f32_to_u8,
};
use crate::compute::elementwise::Unary;
use crate::runtime::core::Core;

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
    core.track("TCVT", Agent::V, |i| {
        i.reads(source);
        i.writes(target);
    });
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
