//! Dynamic quantisation of rows, and the two roundings on the way back.

use crate::numerics::float::{
    Float16, f16_toward_zero, rint_half_even, round_half_away, saturate_i8,
};

/// Largest int8 value that a quantised row uses.
pub const Q_MAX: f32 = 127.0;
/// Row scale of an activated row whose values are all zero.
pub const EMPTY_SWIGLU_SCALE: f32 = 1.0e-6 / 127.0;

/// int8 values of a row and what one of them is worth.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedRow {
    /// The values.
    pub q: Vec<i8>,
    /// Row scale: `value ~ q * scale`.
    pub scale: f32,
}

/// Largest magnitude of a row; NaN when the row holds one.
fn abs_max(row: impl Iterator<Item = f32>) -> f32 {
    row.fold(0.0, |max: f32, value| {
        let value = value.abs();
        if value > max || value.is_nan() {
            value
        } else {
            max
        }
    })
}

/// Quantises a token: `s = max|x| / 127`, `q = round_half_away(f16_toward_zero(x / s))`.
///
/// The detour over fp16 is the hardware's: it has no direct conversion from fp32 to int8. A row of
/// zeros, or one so small that `s` underflows to zero, gives `q = 0` with scale 0. A row with a NaN or
/// an infinity keeps a scale that is not finite.
#[must_use]
pub fn quant_front(row: &[f32]) -> QuantizedRow {
    let scale = abs_max(row.iter().copied()) / Q_MAX;
    let quantize = |&x: &f32| {
        if scale == 0.0 {
            0
        } else {
            saturate_i8(round_half_away(f16_toward_zero(x / scale).to_f32()))
        }
    };
    QuantizedRow {
        q: row.iter().map(quantize).collect(),
        scale,
    }
}

/// Quantises an activated row: `m = max|y|`, `q = rint_half_even(y * (127 / m))`, row scale `m / 127`.
///
/// A row of zeros gives `q = 0` and the row scale `1e-6 / 127`. Where `m` is so small that `127 / m` is
/// infinite, `q` saturates at ±127 and zeros stay 0.
#[must_use]
pub fn quant_swiglu(row: &[f32]) -> QuantizedRow {
    let max = abs_max(row.iter().copied());
    if max == 0.0 {
        return QuantizedRow {
            q: vec![0; row.len()],
            scale: EMPTY_SWIGLU_SCALE,
        };
    }
    let inverse = Q_MAX / max;
    let quantize = |&y: &f32| saturate_i8(rint_half_even(y * inverse).clamp(-Q_MAX, Q_MAX));
    QuantizedRow {
        q: row.iter().map(quantize).collect(),
        scale: max / Q_MAX,
    }
}

/// An element of a returned row: `T(h2 * row_scale)`, nearest even.
#[must_use]
pub fn combine_scale<T: Float16>(h2: half::f16, row_scale: f32) -> T {
    T::from_f32_nearest(h2.to_f32() * row_scale)
}

/// One step of the weighted sum: multiply, round, add, round.
#[must_use]
pub fn weighted_add<T: Float16>(sum: f32, returned: T, prob: f32) -> f32 {
    let product = returned.widen() * prob;
    sum + product
}

/// The last rounding, nearest even.
#[must_use]
pub fn round_output<T: Float16>(sum: f32) -> T {
    T::from_f32_nearest(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn front_truncates_before_it_rounds() {
        // 127 sets the scale to 1, so x is quantised as it is. 0.49999997 would round up to 0.5 in fp16
        // and then away from zero to 1; truncation keeps it below.
        let row = quant_front(&[127.0, 0.499_999_97, 0.5, -0.5, 2.5, -126.5]);
        assert_eq!(row.q, [127, 0, 1, -1, 3, -127]);
        assert_eq!(row.scale, 1.0);
    }

    #[test]
    fn all_zero_row_has_finite_scale_and_zero_output() {
        let row = quant_front(&[0.0, -0.0, 0.0]);
        assert_eq!((row.q, row.scale), (vec![0; 3], 0.0));
        let row = quant_swiglu(&[0.0, -0.0]);
        assert_eq!(row.q, [0, 0]);
        assert_eq!(row.scale, 1.0e-6 / 127.0);
    }

    #[test]
    fn tiny_amax_stays_finite() {
        for tiny in [6e-38, 1e-40, f32::from_bits(1)] {
            for row in [
                quant_front(&[tiny, -tiny, 0.0]),
                quant_swiglu(&[tiny, -tiny, 0.0]),
            ] {
                assert!(row.scale.is_finite(), "{tiny}: {row:?}");
                assert_eq!(row.q[2], 0, "{tiny}: {row:?}");
                assert!(row.q[0] >= 0 && row.q[1] == -row.q[0], "{tiny}: {row:?}");
            }
        }
    }

    #[test]
    fn not_a_number_marks_the_scale_and_nothing_else() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for row in [
                quant_front(&[1.0, bad, 2.0]),
                quant_swiglu(&[1.0, bad, 2.0]),
            ] {
                assert!(!row.scale.is_finite(), "{bad}: {row:?}");
            }
        }
    }

    #[test]
    fn swiglu_ties_go_to_even() {
        let row = quant_swiglu(&[127.0, 0.5, 1.5, 2.5, -0.5, -2.5]);
        assert_eq!(row.q, [127, 0, 2, 2, 0, -2]);
        assert_eq!(row.scale, 1.0);
    }

    #[test]
    fn returned_rows_round_to_nearest_even() {
        let two_k = f16::from_f32(2048.0);
        assert_eq!(
            combine_scale::<f16>(two_k, 1.0 + 1.0 / 2048.0).to_f32(),
            2048.0
        );
        assert_eq!(
            combine_scale::<bf16>(f16::from_f32(257.0), 1.0).to_f32(),
            256.0
        );
        assert_eq!(combine_scale::<f16>(two_k, 1e10), f16::INFINITY);
    }

    #[test]
    fn a_sum_rounds_after_the_product() {
        // A fused multiply-add would keep the product's low bits and give another sum.
        let (value, prob) = (f16::from_f32(1.0 + 1.0 / 1024.0), 1.0 + f32::EPSILON);
        let product = value.to_f32() * prob;
        assert_eq!(weighted_add(-product, value, prob), 0.0);
        assert_ne!(value.to_f32().mul_add(prob, -product), 0.0);
    }
}
