//! Exponential and the activations built on it.

/// fp32 exponential with a fixed order of operations, so that vector code can equal it bit for bit.
///
/// `n = rint(x * log2(e))`, `r = x - n * ln(2)` in two fused steps, a polynomial of degree 7 in `r` by
/// Horner's rule with fused multiply-adds, then a scaling by `2^n` in two exact halves. The result is
/// within one unit in the last place of the true value; subnormal results are rounded once more.
/// Above 88.72284 it is infinity, below -104 it is zero, NaN gives NaN.
// Always inlined: the fused steps are instructions only in callers that are compiled for a processor with them.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    // Clamping first keeps every later step finite; the ends give infinity and zero by themselves.
    // `max(min(x))` in this order passes a NaN through as the comparison-based clamp of vector units does.
    let x = if x > exp_consts::HI {
        exp_consts::HI
    } else {
        x
    };
    let x = if x < exp_consts::LO {
        exp_consts::LO
    } else {
        x
    };
    let n = (x * exp_consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-exp_consts::LN2_HI, x);
    let r = n.mul_add(-exp_consts::LN2_LO, r);
    let mut p = exp_consts::POLY[0];
    for &c in &exp_consts::POLY[1..] {
        p = p.mul_add(r, c);
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "n lies in -151..=130; a NaN becomes 0"
    )]
    let n = n as i32;
    let half = n >> 1;
    p * power_of_two(half) * power_of_two(n - half)
}

/// Constants of [`exp`]; vector implementations use the same.
pub mod exp_consts {
    /// Inputs above give infinity.
    pub const HI: f32 = 89.0;
    /// Inputs below give zero.
    pub const LO: f32 = -104.5;
    /// `log2(e)`.
    pub const LOG2_E: f32 = std::f32::consts::LOG2_E;
    /// High part of `ln(2)`: its low mantissa bits are zero, so `n * LN2_HI` is exact.
    #[expect(
        clippy::excessive_precision,
        reason = "the exact value of the constant"
    )]
    pub const LN2_HI: f32 = 0.693_359_375;
    /// `ln(2) - LN2_HI`.
    pub const LN2_LO: f32 = -2.121_944_4e-4;
    /// Coefficients of the polynomial, highest power first: Taylor's series, whose error over
    /// `|r| <= ln(2) / 2` lies below half a unit in the last place at degree 7.
    pub const POLY: [f32; 8] = [
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
}

/// `2^n` for `n` in -126..=127, from its bits.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n + 127).cast_unsigned() << 23)
}

/// `x / (1 + exp(-x))`, each step rounded to fp32.
#[must_use]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// GELU in its tanh form, `x / (1 + exp(-2u))` with `u = sqrt(2/pi) * (x + 0.044715 x^3)`: the same
/// instructions as [`silu`] after the polynomial, each step rounded to fp32.
#[must_use]
pub fn gelu(x: f32) -> f32 {
    let cubic = x * x * GELU_CUBIC + 1.0;
    let u = x * cubic * GELU_MINUS_TWO_SQRT_2_OVER_PI;
    x / (1.0 + exp(u))
}

/// Weight of the cubic term in [`gelu`].
pub const GELU_CUBIC: f32 = 0.044_715;
/// `-2 * sqrt(2 / pi)`.
pub const GELU_MINUS_TWO_SQRT_2_OVER_PI: f32 = -1.595_769_2;

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in units of the last place of the rounded true value.
    fn ulps(got: f32, true_value: f64) -> f64 {
        let nearest = true_value as f32;
        let ulp = f64::from(f32::from_bits(nearest.to_bits() + 1)) - f64::from(nearest);
        (f64::from(got) - true_value).abs() / ulp
    }

    #[test]
    fn exp_is_within_one_ulp() {
        let mut worst = 0.0f64;
        for step in -870_000..=887_000 {
            let x = step as f32 * 1e-4;
            worst = worst.max(ulps(exp(x), f64::from(x).exp()));
        }
        assert!(worst <= 1.0, "worst {worst} ulp");
    }

    #[test]
    fn exp_at_its_ends() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(88.8), f32::INFINITY);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp(f32::MAX), f32::INFINITY);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-104.1), 0.0);
        assert!(exp(-103.0) > 0.0, "a subnormal result");
        assert!(exp(88.72) < f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn silu_at_its_ends() {
        assert_eq!(silu(0.0), 0.0);
        assert_eq!(silu(200.0), 200.0);
        assert_eq!(silu(-200.0), -0.0);
        assert!(silu(f32::NEG_INFINITY).is_nan(), "-inf / inf");
        assert_eq!(silu(f32::INFINITY), f32::INFINITY);
        assert!((silu(1.0) - 0.731_058_6).abs() < 1e-6);
    }

    #[test]
    fn gelu_matches_the_tanh_form() {
        for step in -800..=800 {
            let x = f64::from(step) * 0.01;
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            let want = 0.5 * x * (1.0 + u.tanh());
            assert!((f64::from(gelu(x as f32)) - want).abs() < 2e-6, "{x}");
        }
        assert!(gelu(f32::NAN).is_nan());
    }
}
