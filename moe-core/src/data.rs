//! Data for runs and tests, made in chunks that can be computed in any order.
//!
//! Two kinds: the published data writer's rule ([`DataKind::Synthetic`]), reproduced bit for bit, and
//! random values whose outputs are of unit scale ([`DataKind::Random`]). The published rule is periodic,
//! perfectly balanced and its outputs are about 1e-3: it proves little, use it to compare with others.

use half::{bf16, f16};

use crate::numerics::bf16_truncate;
use crate::problem::{FloatType, Problem};
use crate::rng::Rng;
use crate::weights::{packed_bytes, packed_index};

/// How values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataKind {
    /// The published data writer's rule.
    Synthetic,
    /// Random, outputs of unit scale.
    Random,
}

/// One of the layer's two weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// GMM1's, `[hidden, 2 * intermediate]`.
    Weight1,
    /// GMM2's, `[intermediate, hidden]`.
    Weight2,
}

impl Matrix {
    /// Rows and columns of one expert's matrix.
    #[must_use]
    pub fn shape(self, problem: &Problem) -> (u64, u64) {
        match self {
            Self::Weight1 => (problem.hidden().into(), problem.gate_up().into()),
            Self::Weight2 => (problem.intermediate().into(), problem.hidden().into()),
        }
    }
}

/// Makes the arrays of one problem.
#[derive(Clone, Copy, Debug)]
pub struct Generator<'a> {
    problem: &'a Problem,
    kind: DataKind,
    seed: u64,
}

/// Distinguish the random streams of the arrays.
mod stream {
    pub(super) const X: u64 = 1;
    pub(super) const PROBS: u64 = 2;
    pub(super) const WEIGHT: u64 = 3;
}

impl<'a> Generator<'a> {
    /// A generator for `problem`. The synthetic rule ignores `seed`.
    #[must_use]
    pub fn new(problem: &'a Problem, kind: DataKind, seed: u64) -> Self {
        Self {
            problem,
            kind,
            seed,
        }
    }

    /// Token `token` of `rank`: `[hidden]` bits of the input type.
    #[must_use]
    pub fn token(&self, rank: u32, token: u32) -> Vec<u16> {
        let values = (0..self.problem.hidden()).map(|column| (token, column));
        match self.kind {
            DataKind::Synthetic => values
                .map(|(token, column)| {
                    let index = u64::from(token) * u64::from(self.problem.hidden());
                    self.narrow(synthetic_x(rank, index + u64::from(column)))
                })
                .collect(),
            DataKind::Random => {
                let mut rng = Rng::for_path(&[self.seed, stream::X, rank.into(), token.into()]);
                values.map(|_| self.narrow(rng.normal_f32())).collect()
            }
        }
    }

    fn narrow(&self, value: f32) -> u16 {
        match self.problem.input_type() {
            FloatType::Bf16 if self.kind == DataKind::Synthetic => bf16_truncate(value).to_bits(),
            FloatType::Bf16 => bf16::from_f32(value).to_bits(),
            FloatType::F16 => f16::from_f32(value).to_bits(),
        }
    }

    /// Weights of the routes of `token`: `[top_k]`, they sum to about 1.
    #[must_use]
    pub fn probs(&self, rank: u32, token: u32) -> Vec<f32> {
        let top_k = self.problem.top_k();
        let raw: Vec<f32> = match self.kind {
            DataKind::Synthetic => synthetic_probs(rank, token, top_k),
            DataKind::Random => {
                let mut rng = Rng::for_path(&[self.seed, stream::PROBS, rank.into(), token.into()]);
                (0..top_k).map(|_| rng.normal_f32().abs() + 0.1).collect()
            }
        };
        let sum: f32 = raw.iter().sum();
        raw.into_iter().map(|prob| prob / sum).collect()
    }

    /// The packed matrix of local expert `expert` of `rank`. Padding is zero.
    #[must_use]
    pub fn weight(&self, matrix: Matrix, rank: u32, expert: u32) -> Vec<i8> {
        let (rows, cols) = matrix.shape(self.problem);
        let mut packed = vec![0; to_usize(packed_bytes(rows, cols))];
        let matrix_number = matrix as u64;
        let mut rng = Rng::for_path(&[
            self.seed,
            stream::WEIGHT + matrix_number,
            rank.into(),
            expert.into(),
        ]);
        for row in 0..rows {
            for col in 0..cols {
                let linear = (u64::from(expert) * rows + row) * cols + col;
                packed[to_usize(packed_index(rows, row, col))] = match self.kind {
                    DataKind::Synthetic => synthetic_weight(matrix, rank, linear),
                    DataKind::Random => random_i8(&mut rng),
                };
            }
        }
        packed
    }

    /// Channel scales of all experts of `rank`: `[experts_per_rank, cols]`, fp32 bits in the low half.
    #[must_use]
    pub fn scales(&self, matrix: Matrix, rank: u32) -> Vec<u64> {
        let (rows, cols) = matrix.shape(self.problem);
        let count = u64::from(self.problem.experts_per_rank()) * cols;
        let offset = u64::from(rank) * if matrix == Matrix::Weight1 { 17 } else { 23 };
        // Keeps sums of `rows` products of an int8 token (deviation about 40) and an int8 weight (about
        // 74) of unit size once the row scale (about 3.5 / 127) is applied.
        #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^24")]
        let unit = 0.0125 / (rows as f32).sqrt();
        (0..count)
            .map(|linear| {
                #[expect(clippy::cast_precision_loss, reason = "a number below 5")]
                let step = ((linear + offset) % 5) as f32;
                let scale = match self.kind {
                    DataKind::Synthetic => (1.0 + step / 8.0) / 16.0,
                    DataKind::Random => unit * (1.0 + step / 8.0),
                };
                scale.to_bits().into()
            })
            .collect()
    }
}

/// `0.75 sin((b + 17 r) / 23) + 0.05 cos((b mod 29) / 11)`, in fp32.
#[expect(
    clippy::cast_precision_loss,
    reason = "the published rule computes in fp32"
)]
fn synthetic_x(rank: u32, index: u64) -> f32 {
    let wave = (index + 17 * u64::from(rank)) as f32 / 23.0;
    let ripple = (index % 29) as f32 / 11.0;
    0.75 * wave.sin() + 0.05 * ripple.cos()
}

/// `(top_k - j) + 0.05 (token mod top_k) + 0.01 r`, not yet normalised.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn synthetic_probs(rank: u32, token: u32, top_k: u32) -> Vec<f32> {
    let shift = 0.05 * (token % top_k) as f32;
    (0..top_k)
        .map(|slot| (top_k - slot) as f32 + shift + 0.01 * rank as f32)
        .collect()
}

fn synthetic_weight(matrix: Matrix, rank: u32, linear: u64) -> i8 {
    let rank = u64::from(rank);
    let value = match matrix {
        Matrix::Weight1 => (linear + 13 * rank + 7) % 7,
        Matrix::Weight2 => (linear + 19 * rank + 11) % 9,
    };
    let centre = if matrix == Matrix::Weight1 { 3 } else { 4 };
    // Below 9.
    i8::try_from(value).unwrap_or(i8::MAX) - centre
}

fn random_i8(rng: &mut Rng) -> i8 {
    // Full range but -128, whose magnitude symmetric quantisation never produces.
    let value = i16::try_from(rng.below(255)).unwrap_or_default() - 127;
    i8::try_from(value).unwrap_or_default()
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
