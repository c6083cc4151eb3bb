//! The oracle: the formula, row by row.

use half::f16;
use moe_core::numerics::{QuantizedRow, gelu, quant_swiglu, silu};
use rayon::prelude::*;

/// The function applied to the first half of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    #[default]
    Silu,
    /// GELU in its tanh form.
    Gelu,
}

/// How the activation is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActivationOptions {
    /// The function.
    pub activation: Activation,
    /// Before the activation, the first half is cut at `+limit` and the second half at `±limit`.
    pub limit: Option<f32>,
}

/// Quantised rows.
#[derive(Clone, Debug, PartialEq)]
pub struct SwigluOutput {
    /// `[num_rows, intermediate]`.
    pub q: Vec<i8>,
    /// `[num_rows]`.
    pub q_scale: Vec<f32>,
}

/// Activates and quantises every row. `h` is `[num_rows, 2 * intermediate]`, `row_scale` is `[num_rows]`.
#[must_use]
pub fn swiglu(
    intermediate: u32,
    h: &[f16],
    row_scale: &[f32],
    options: ActivationOptions,
) -> SwigluOutput {
    let rows: Vec<QuantizedRow> = h
        .par_chunks(2 * intermediate as usize)
        .zip(row_scale)
        .map(|(h, &scale)| quant_swiglu(&activate(h, scale, options)))
        .collect();
    let q_scale = rows.iter().map(|row| row.scale).collect();
    SwigluOutput {
        q: rows.into_iter().flat_map(|row| row.q).collect(),
        q_scale,
    }
}

fn activate(h: &[f16], scale: f32, options: ActivationOptions) -> Vec<f32> {
    let (up, gate) = h.split_at(h.len() / 2);
    let function = match options.activation {
        Activation::Silu => silu,
        Activation::Gelu => gelu,
    };
    up.iter()
        .zip(gate)
        .map(|(up, gate)| {
            let (up, gate) = (up.to_f32() * scale, gate.to_f32() * scale);
            let (up, gate) = match options.limit {
                // Comparisons, so that a NaN passes through.
                Some(limit) => (at_most(up, limit), -at_most(-at_most(gate, limit), limit)),
                None => (up, gate),
            };
            function(up) * gate
        })
        .collect()
}

fn at_most(value: f32, limit: f32) -> f32 {
    if value > limit { limit } else { value }
}
