//! Grouped matmul: each local expert's rows times its weights, for GMM1 and GMM2.
//!
//! ```text
//! acc[i][n] = sum over k of a[i][k] * weight[e][k][n]             (exact, int32)
//! c[i][n]   = f16(clamp(acc[i][n] * fixpipe_scale(scale[e][n]), +-65504))
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `a` | `[num_rows, k]` | i8 |
//! | `weight` | `[experts_per_rank]` packed `[k, n]` ([`moe_core::weights`]) | i8 |
//! | `channel_scale` | `[experts_per_rank, n]` | u64, fp32 bits in the low half |
//! | `c` | `[num_rows, n]` | f16 |
//!
//! GMM1 has `k = hidden`, `n = 2 * intermediate`; GMM2 has `k = intermediate`, `n = hidden`.
#![deny(missing_docs)]

pub mod packing;
pub mod reference;
