//! How far an output is from what it should be.

use half::{bf16, f16};
use moe_core::FloatType;
use moe_core::numerics::Float16;
use serde::{Deserialize, Serialize};

/// Differences of an output from the wanted one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Elements compared.
    pub num_elements: u64,
    /// Elements with the same bits; two NaN count as equal.
    pub num_bit_equal: u64,
    /// Largest absolute difference of elements; infinite when one is NaN and the other is not.
    pub max_abs_error: f64,
    /// `|got - want| / |want|` in the Frobenius norm, over elements that are finite in both.
    pub rel_frobenius: f64,
    /// First element with other bits, if any.
    pub first_difference: Option<Difference>,
}

/// An element that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Rank.
    pub rank: u32,
    /// Token on the rank.
    pub token: u64,
    /// Column.
    pub column: u64,
    /// What it is.
    pub got: f32,
    /// What it should be.
    pub want: f32,
}

/// What an output must reach to count as right.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Smallest share of elements with the wanted bits, 0 to 1.
    pub min_bit_equal: f64,
    /// Largest relative Frobenius error.
    pub max_rel_frobenius: f64,
}

impl Tolerance {
    /// Every bit as wanted: what kernels owe the oracle.
    pub const EXACT: Self = Self {
        min_bit_equal: 1.0,
        max_rel_frobenius: 0.0,
    };
    /// What an output owes files that another implementation wrote: its exponential differs by an ulp.
    pub const PUBLISHED: Self = Self {
        min_bit_equal: 0.9999,
        max_rel_frobenius: 1e-5,
    };
}

impl Comparison {
    /// Compares outputs of all ranks, `[num_tokens, hidden]` bits each.
    ///
    /// # Panics
    /// When the lengths differ.
    #[must_use]
    pub fn of(float: FloatType, hidden: u32, got: &[Vec<u16>], want: &[Vec<u16>]) -> Self {
        match float {
            FloatType::F16 => Self::typed::<f16>(hidden, got, want),
            FloatType::Bf16 => Self::typed::<bf16>(hidden, got, want),
        }
    }

    fn typed<T: Float16>(hidden: u32, got: &[Vec<u16>], want: &[Vec<u16>]) -> Self {
        assert_eq!(got.len(), want.len(), "ranks");
        let mut sums = Sums::default();
        for ((rank, got), want) in (0..).zip(got).zip(want) {
            assert_eq!(got.len(), want.len(), "elements of rank {rank}");
            for ((index, &got), &want) in (0u64..).zip(got).zip(want) {
                let (got, want): (T, T) = (bytemuck::cast(got), bytemuck::cast(want));
                let place = (rank, index / u64::from(hidden), index % u64::from(hidden));
                sums.add(place, got.bits() == want.bits(), got.widen(), want.widen());
            }
        }
        sums.comparison()
    }

    /// Share of elements with the wanted bits; 1 when there are none.
    #[must_use]
    pub fn bit_equal_share(&self) -> f64 {
        if self.num_elements == 0 {
            1.0
        } else {
            self.num_bit_equal as f64 / self.num_elements as f64
        }
    }

    /// Whether the output is right.
    #[must_use]
    pub fn within(&self, tolerance: &Tolerance) -> bool {
        self.max_abs_error.is_finite()
            && self.bit_equal_share() >= tolerance.min_bit_equal
            && self.rel_frobenius <= tolerance.max_rel_frobenius
    }
}

#[derive(Default)]
struct Sums {
    num_elements: u64,
    num_bit_equal: u64,
    max_abs_error: f64,
    error_squares: f64,
    want_squares: f64,
    first_difference: Option<Difference>,
}

impl Sums {
    fn add(&mut self, place: (u32, u64, u64), same_bits: bool, got: f32, want: f32) {
        self.num_elements += 1;
        if same_bits || (got.is_nan() && want.is_nan()) {
            self.num_bit_equal += 1;
            if want.is_finite() {
                self.want_squares += f64::from(want).powi(2);
            }
            return;
        }
        let (rank, token, column) = place;
        self.first_difference.get_or_insert(Difference {
            rank,
            token,
            column,
            got,
            want,
        });
        if !(got.is_finite() && want.is_finite()) {
            self.max_abs_error = f64::INFINITY;
            return;
        }
        let error = f64::from(got) - f64::from(want);
        self.max_abs_error = self.max_abs_error.max(error.abs());
        self.error_squares += error * error;
        self.want_squares += f64::from(want).powi(2);
    }

    fn comparison(self) -> Comparison {
        let rel_frobenius = if self.error_squares == 0.0 {
            0.0
        } else {
            (self.error_squares / self.want_squares).sqrt()
        };
        Comparison {
            num_elements: self.num_elements,
            num_bit_equal: self.num_bit_equal,
            max_abs_error: self.max_abs_error,
            rel_frobenius,
            first_difference: self.first_difference,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(values: &[f32]) -> Vec<u16> {
        values.iter().map(|&v| f16::from_f32(v).to_bits()).collect()
    }

    fn compare(got: &[f32], want: &[f32]) -> Comparison {
        Comparison::of(
            FloatType::F16,
            2,
            &[vec![], bits(got)],
            &[vec![], bits(want)],
        )
    }

    #[test]
    fn differences_are_measured_and_placed() {
        let result = compare(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 8.0]);
        assert_eq!((result.num_elements, result.num_bit_equal), (4, 3));
        assert_eq!(result.max_abs_error, 4.0);
        assert!((result.rel_frobenius - (16.0f64 / 78.0).sqrt()).abs() < 1e-12);
        let difference = Difference {
            rank: 1,
            token: 1,
            column: 1,
            got: 4.0,
            want: 8.0,
        };
        assert_eq!(result.first_difference, Some(difference));
        assert!(!result.within(&Tolerance::PUBLISHED));
    }

    #[test]
    fn a_nan_where_none_should_be_is_never_right() {
        let result = compare(&[f32::NAN, 1.0], &[0.0, 1.0]);
        assert!(!result.within(&Tolerance {
            min_bit_equal: 0.0,
            max_rel_frobenius: 1e9
        }));
        assert!(compare(&[f32::NAN], &[f32::NAN]).within(&Tolerance::EXACT));
        assert!(!compare(&[0.0], &[f32::NAN]).within(&Tolerance::EXACT));
        assert!(!compare(&[f32::INFINITY], &[f32::NEG_INFINITY]).within(&Tolerance::PUBLISHED));
    }

    #[test]
    fn nothing_to_compare_is_right() {
        assert!(compare(&[], &[]).within(&Tolerance::EXACT));
        assert!(compare(&[0.0], &[-0.0]).within(&Tolerance {
            min_bit_equal: 0.0,
            max_rel_frobenius: 0.0
        }));
    }
}
