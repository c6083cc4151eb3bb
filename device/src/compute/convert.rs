//! Conversions between number formats, in every rounding mode. Written with selects instead of branches
//! so that compilers turn them into vector code.

use crate::abi::types::Round;

const F32_MAGNITUDE: u32 = 0x7fff_ffff;
const F16_INFINITY: u32 = 0x7c00;
const F16_LARGEST: u32 = 0x7bff;
/// Bits of 2^-14, the smallest normal half.
const F16_MIN_NORMAL: u32 = 0x3880_0000;
/// Bits of 2^16, which no half reaches.
const F16_LIMIT: u32 = 0x4780_0000;
/// Difference of the exponents' biases, in a half's exponent field.
const BIAS: u32 = 112 << 10;

/// Widens a half; NaNs become quiet.
#[inline(always)]
#[must_use]
pub fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff) << 13;
    // 2^112 moves the exponent to the other bias and makes subnormals normal, exactly.
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if magnitude > F16_INFINITY << 13 {
        0x7fc0_0000
    } else {
        0x7f80_0000
    };
    let bits = if magnitude >= F16_INFINITY << 13 {
        magnitude | special
    } else {
        finite
    };
    f32::from_bits(sign | bits)
}

/// Bits of a half with the magnitude that is `normal` for normal results, `subnormal` for smaller ones,
/// `overflow` for finite values that are too large.
#[inline(always)]
fn assemble(bits: u32, normal: u32, subnormal: u32, overflow: u32) -> u16 {
    let magnitude = bits & F32_MAGNITUDE;
    let nan = 0x7e00 | (magnitude >> 13 & 0x3ff);
    let finite = if magnitude < F16_MIN_NORMAL {
        subnormal
    } else {
        normal
    };
    let large = if magnitude == 0x7f80_0000 {
        F16_INFINITY
    } else {
        overflow
    };
    let number = if magnitude >= F16_LIMIT {
        large
    } else {
        finite
    };
    let result = if magnitude > 0x7f80_0000 { nan } else { number };
    (result | (bits >> 16 & 0x8000)) as u16
}

/// Narrows to half, nearest even.
#[inline(always)]
#[must_use]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & F32_MAGNITUDE;
    let odd = magnitude >> 13 & 1;
    let normal = (magnitude.wrapping_add(0xfff + odd) >> 13).wrapping_sub(BIAS);
    // Adding 0.5 leaves a subnormal's bits at the end of the sum, rounded by the addition itself.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    assemble(bits, normal, subnormal, F16_INFINITY)
}

/// Narrows to half, toward zero.
#[inline(always)]
#[must_use]
pub fn f32_to_f16_toward_zero(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & F32_MAGNITUDE;
    let normal = (magnitude >> 13).wrapping_sub(BIAS);
    assemble(bits, normal, truncated_subnormal(magnitude), F16_LARGEST)
}

/// A subnormal half's bits: the value in units of 2^-24, cut off.
#[inline(always)]
fn truncated_subnormal(magnitude: u32) -> u32 {
    let units = f32::from_bits(magnitude.min(F16_MIN_NORMAL)) * 16_777_216.0;
    // SAFETY: at most 2^10, and no NaN: the magnitude was limited as an integer.
    unsafe { units.to_int_unchecked::<i32>() as u32 }
}

/// Narrows to half in any mode.
#[inline(always)]
#[must_use]
pub fn f32_to_f16_rounded(value: f32, round: Round) -> u16 {
    match round {
        Round::None | Round::Rint => f32_to_f16(value),
        Round::Trunc => f32_to_f16_toward_zero(value),
        _ => directed(value, round),
    }
}

/// The modes that start from the value cut off: one unit is added, or the last bit set, where asked.
#[inline(always)]
fn directed(value: f32, round: Round) -> u16 {
    let cut = f32_to_f16_toward_zero(value);
    let back = f16_to_f32(cut);
    if value.is_nan() || value.is_infinite() || back == value {
        return cut;
    }
    let next = cut + 1;
    let up = match round {
        Round::Floor => value < 0.0,
        Round::Ceil => value > 0.0,
        Round::Away => {
            // The largest half has no finite neighbour; its next one would be 2^16.
            let next = if next & 0x7fff == 0x7c00 {
                65536.0
            } else {
                f16_to_f32(next).abs()
            };
            value.abs() - back.abs() >= next - value.abs()
        }
        _ => cut & 1 == 0,
    };
    if up { next } else { cut }
}

/// Narrows to bfloat16 in any mode.
#[inline(always)]
#[must_use]
pub fn f32_to_bf16_rounded(value: f32, round: Round) -> u16 {
    let bits = value.to_bits();
    let odd = bits >> 16 & 1;
    let inexact = u32::from(bits & 0xffff != 0);
    let negative = bits >> 31;
    let increment = match round {
        Round::None | Round::Rint => 0x7fff + odd,
        Round::Away => 0x8000,
        Round::Trunc => 0,
        Round::Floor => 0xffff * negative,
        Round::Ceil => 0xffff * (1 - negative),
        Round::Odd => (inexact & (1 - odd)) << 16,
    };
    let special = bits & F32_MAGNITUDE >= 0x7f80_0000;
    let nan = u32::from(bits & F32_MAGNITUDE > 0x7f80_0000) << 22;
    let rounded = if special {
        bits | nan
    } else {
        bits.wrapping_add(increment)
    };
    (rounded >> 16) as u16
}

/// Widens a bfloat16.
#[inline(always)]
#[must_use]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to an integral value.
#[inline(always)]
#[must_use]
pub fn round_integral(value: f32, round: Round) -> f32 {
    match round {
        Round::None | Round::Rint => value.round_ties_even(),
        Round::Away => {
            let cut = value.trunc();
            let up = (value - cut).abs() >= 0.5;
            if up { cut + 1f32.copysign(value) } else { cut }
        }
        Round::Floor => value.floor(),
        Round::Ceil => value.ceil(),
        Round::Trunc => value.trunc(),
        Round::Odd => {
            let cut = value.trunc();
            let odd = (cut * 0.5).trunc() * 2.0 != cut;
            if cut == value || odd {
                cut
            } else {
                cut + 1f32.copysign(value)
            }
        }
    }
}

/// `value as i32`, but compilers make vector code of it.
#[inline(always)]
fn saturating_i32(value: f32) -> i32 {
    /// The largest float below 2^31.
    const LARGEST: f32 = 2_147_483_520.0;
    const SMALLEST: f32 = -2_147_483_648.0;
    let limited = if value < LARGEST { value } else { LARGEST };
    let limited = if limited > SMALLEST {
        limited
    } else {
        SMALLEST
    };
    // SAFETY: between both limits; a NaN became the largest.
    let int = unsafe { limited.to_int_unchecked::<i32>() };
    let int = if value > LARGEST { i32::MAX } else { int };
    if value.is_nan() { 0 } else { int }
}

/// To int32, saturating; NaN gives 0.
#[inline(always)]
#[must_use]
pub fn f32_to_i32(value: f32, round: Round) -> i32 {
    saturating_i32(round_integral(value, round))
}

/// To int16: saturating, or the low bits of the integer; NaN gives 0.
#[inline(always)]
#[must_use]
pub fn f32_to_i16(value: f32, round: Round, saturate: bool) -> i16 {
    let value = f32_to_i32(value, round);
    if saturate {
        value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
    } else {
        value as i16
    }
}

/// To int8: saturating, or the low bits of the integer; NaN gives 0.
#[inline(always)]
#[must_use]
pub fn f32_to_i8(value: f32, round: Round, saturate: bool) -> i8 {
    let value = f32_to_i32(value, round);
    if saturate {
        value.clamp(i8::MIN.into(), i8::MAX.into()) as i8
    } else {
        value as i8
    }
}

/// To uint8: saturating, or the low bits of the integer; NaN gives 0.
#[inline(always)]
#[must_use]
pub fn f32_to_u8(value: f32, round: Round, saturate: bool) -> u8 {
    let value = f32_to_i32(value, round);
    if saturate {
        value.clamp(u8::MIN.into(), u8::MAX.into()) as u8
    } else {
        value as u8
    }
}
