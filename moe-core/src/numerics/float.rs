//! Conversions between floating-point types and to integers, each with its rounding in the name.

use half::{bf16, f16};

use crate::problem::FloatType;

/// Largest finite half-precision value; the matrix unit's output stage clamps to it.
const F16_MAX: f32 = 65504.0;

/// Mantissa bits that the matrix unit's per-column scale does not have.
const FIXPIPE_DROPPED_BITS: u32 = 0x1fff;

/// A 16-bit float as the kernels see it: converted to and from fp32.
pub trait Float16: Copy + bytemuck::Pod + Send + Sync + std::fmt::Debug + 'static {
    /// Which type this is.
    const TYPE: FloatType;
    /// The nearest value, ties to even.
    fn from_f32_nearest(value: f32) -> Self;
    /// The value, exactly.
    fn widen(self) -> f32;
    /// Its bits.
    fn bits(self) -> u16;
}

impl Float16 for f16 {
    const TYPE: FloatType = FloatType::F16;
    fn from_f32_nearest(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

impl Float16 for bf16 {
    const TYPE: FloatType = FloatType::Bf16;
    fn from_f32_nearest(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

/// fp32 to bf16 by dropping the low half, as the published data writer does. A NaN stays a NaN.
#[must_use]
pub fn bf16_truncate(value: f32) -> bf16 {
    if value.is_nan() {
        return bf16::NAN;
    }
    bf16::from_bits((value.to_bits() >> 16) as u16)
}

/// fp32 to fp16 toward zero: the largest half-precision value that is not larger in magnitude.
/// Finite values beyond the range become ±65504, infinities and NaN stay what they are.
#[must_use]
pub fn f16_toward_zero(value: f32) -> f16 {
    let nearest = f16::from_f32(value);
    let rounded_up = nearest.to_f32().abs() > value.abs();
    if rounded_up {
        // One step toward zero in the ordering of magnitudes; also takes infinity to the largest finite.
        f16::from_bits(nearest.to_bits() - 1)
    } else {
        nearest
    }
}

/// Rounds to the nearest integer, ties away from zero.
#[must_use]
pub fn round_half_away(value: f32) -> f32 {
    value.round()
}

/// Rounds to the nearest integer, ties to even.
#[must_use]
pub fn rint_half_even(value: f32) -> f32 {
    value.round_ties_even()
}

/// An integral fp32 to int8: saturates, NaN becomes 0.
#[must_use]
pub fn saturate_i8(value: f32) -> i8 {
    // `as` is defined to do just this.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturation is the contract"
    )]
    let value = value as i8;
    value
}

/// The per-column output scale as the matrix unit uses it: the fp32 in the low half of `word`, without
/// its low 13 mantissa bits.
#[must_use]
pub fn fixpipe_scale(word: u64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the scale is the low half of the word"
    )]
    let bits = word as u32;
    f32::from_bits(bits & !FIXPIPE_DROPPED_BITS)
}

/// Output stage of the matrix unit: `f16(clamp(acc * scale, ±65504))`, nearest even.
/// The accumulator is rounded to fp32 first. NaN (from a NaN scale) stays NaN.
#[must_use]
pub fn fixpipe_f16(acc: i32, scale: f32) -> f16 {
    #[expect(clippy::cast_precision_loss, reason = "the unit multiplies in fp32")]
    let product = acc as f32 * scale;
    f16::from_f32(product.clamp(-F16_MAX, F16_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_f16() -> impl Iterator<Item = f16> {
        (0..=u16::MAX).map(f16::from_bits)
    }

    #[test]
    fn toward_zero_keeps_every_f16() {
        for value in every_f16() {
            let back = f16_toward_zero(value.to_f32());
            assert!(
                back == value || (back.is_nan() && value.is_nan()),
                "{value:?} {back:?}"
            );
        }
    }

    #[test]
    fn toward_zero_between_two_halves_takes_the_smaller_magnitude() {
        for value in every_f16().filter(|v| v.is_finite() && v.to_f32() >= 0.0) {
            let next = f16::from_bits(value.to_bits() + 1);
            let upper = if next.is_finite() {
                next.to_f32()
            } else {
                65536.0
            };
            for share in [0.25, 0.5, 0.75] {
                let between = value.to_f32() + (upper - value.to_f32()) * share;
                assert_eq!(f16_toward_zero(between), value, "{between}");
                assert_eq!(f16_toward_zero(-between), -value, "-{between}");
            }
        }
    }

    #[test]
    fn toward_zero_at_the_ends() {
        assert_eq!(f16_toward_zero(1e9).to_f32(), 65504.0);
        assert_eq!(f16_toward_zero(-65519.9).to_f32(), -65504.0);
        assert_eq!(f16_toward_zero(f32::INFINITY), f16::INFINITY);
        assert!(f16_toward_zero(f32::NAN).is_nan());
        assert_eq!(f16_toward_zero(1e-8).to_bits(), 0);
        assert_eq!(f16_toward_zero(-1e-8).to_bits(), 0x8000);
        assert_eq!(f16_toward_zero(f32::from_bits(1)).to_bits(), 0);
    }

    #[test]
    fn ties_go_where_the_name_says() {
        for (value, away, even) in [(0.5, 1.0, 0.0), (1.5, 2.0, 2.0), (2.5, 3.0, 2.0)] {
            assert_eq!(round_half_away(value), away);
            assert_eq!(round_half_away(-value), -away);
            assert_eq!(rint_half_even(value), even);
            assert_eq!(rint_half_even(-value), -even);
        }
        // The largest value below one half must not become 1 through an addition of 0.5.
        assert_eq!(round_half_away(0.499_999_97), 0.0);
    }

    #[test]
    fn int8_saturates_and_has_no_nan() {
        for (value, want) in [
            (127.0, 127),
            (128.0, 127),
            (-128.0, -128),
            (-129.0, -128),
            (f32::INFINITY, 127),
        ] {
            assert_eq!(saturate_i8(value), want);
        }
        assert_eq!(saturate_i8(f32::NAN), 0);
    }

    #[test]
    fn the_output_scale_loses_thirteen_bits_and_the_high_word() {
        assert_eq!(fixpipe_scale(u64::from(0x3f80_0000u32)), 1.0);
        assert_eq!(fixpipe_scale(u64::from(0x3f80_1fffu32)), 1.0);
        assert_eq!(fixpipe_scale(u64::from(0x3f80_2000u32)), 1.0 + 1.0 / 1024.0);
        assert_eq!(fixpipe_scale(0x1234_5678_0000_0000 | 0xbf80_1fff), -1.0);
        assert_eq!(fixpipe_scale(0x1fff), 0.0);
    }

    #[test]
    fn the_output_stage_clamps_and_rounds_to_even() {
        assert_eq!(fixpipe_f16(i32::MAX, 1.0).to_f32(), 65504.0);
        assert_eq!(fixpipe_f16(i32::MIN, 1.0).to_f32(), -65504.0);
        assert_eq!(fixpipe_f16(2049, 1.0).to_f32(), 2048.0);
        assert_eq!(fixpipe_f16(2051, 1.0).to_f32(), 2052.0);
        assert_eq!(fixpipe_f16(1, f32::INFINITY).to_f32(), 65504.0);
        assert!(fixpipe_f16(0, f32::INFINITY).is_nan());
        assert!(fixpipe_f16(1, f32::NAN).is_nan());
    }

    #[test]
    fn bf16_truncation_never_rounds_up() {
        assert_eq!(bf16_truncate(f32::from_bits(0x3f80_ffff)).to_bits(), 0x3f80);
        assert_eq!(bf16_truncate(f32::from_bits(0xbf80_ffff)).to_bits(), 0xbf80);
        assert!(bf16_truncate(f32::from_bits(0x7f80_0001)).is_nan());
    }
}
