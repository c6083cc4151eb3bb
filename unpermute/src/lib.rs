//! Unpermute: the weighted sum of each token's returned rows.
//!
//! ```text
//! out[token] = T(sum over slots j, in order, of f32(returned_rows[row_of_route[token, j]]) * probs[token, j])
//! ```
//!
//! in fp32, multiply then add (two roundings), one last rounding to the output type `T`.
//!
//! | view | shape | type |
//! |---|---|---|
//! | `returned_rows` | `[num_routes, hidden]` | f16 or bf16 |
//! | `row_of_route` | `[num_tokens * top_k]` | i32, -1 for no row |
//! | `probs` | `[num_tokens, top_k]` | f32 |
//! | `kept_end` | `[num_experts]` | u32 |
//! | `out` | `[num_tokens, hidden]` | f16 or bf16 |
//!
//! A route without a row, or whose row was dropped, contributes nothing and reads nothing.
#![deny(missing_docs)]

pub mod reference;
