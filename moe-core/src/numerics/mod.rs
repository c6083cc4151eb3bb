//! The numerics contract: every rounding of the layer as a small function.
//!
//! Kernels and oracles must agree with these functions bit for bit.
//!
//! | step | function |
//! |---|---|
//! | quantise a token (front) | [`quant_front`] |
//! | matmul output to half | [`fixpipe_scale`], [`fixpipe_f16`] |
//! | activation | [`silu`], [`gelu`], built on [`exp`] |
//! | quantise an activated row | [`quant_swiglu`] |
//! | scale an expert's output row (combine) | [`combine_scale`] |
//! | weighted sum of a token's rows (unpermute) | [`weighted_add`], then [`round_output`] |
//!
//! **Not-a-number policy.** Every function is total. A NaN never leaves its own row: quantising a row
//! that holds a NaN or an infinity gives defined int8 values (a NaN becomes 0, an overflow saturates)
//! and a row scale that is not finite, so that the token's own output is NaN or infinite and no other
//! token's is.

mod activation;
mod float;
mod quant;

pub use activation::{GELU_CUBIC, GELU_MINUS_TWO_SQRT_2_OVER_PI, exp, exp_consts, gelu, silu};
pub use float::{
    Float16, bf16_truncate, f16_toward_zero, fixpipe_f16, fixpipe_scale, rint_half_even,
    round_half_away, saturate_i8,
};
pub use quant::{
    EMPTY_SWIGLU_SCALE, Q_MAX, QuantizedRow, combine_scale, quant_front, quant_swiglu,
    round_output, weighted_add,
};
