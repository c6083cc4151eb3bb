//! The activation between the two matmuls, and the quantisation of its result.
//!
//! ```text
//! v[j] = f32(h[row][j]) * row_scale[row]                    j in 0 .. 2 * intermediate
//! y[j] = act(v[j]) * v[intermediate + j]                    act = SiLU or GELU; the inputs may be clamped
//! q, q_scale = quant_swiglu(y)
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `h` | `[num_rows, 2 * intermediate]` | f16 |
//! | `row_scale` | `[num_rows]` | f32 |
//! | `q` | `[num_rows, intermediate]` | i8 |
//! | `q_scale` | `[num_rows]` | f32 |
#![deny(missing_docs)]

pub mod reference;
