//! FrontReorder: sorts the routes of a rank by global expert and quantises its tokens.
//!
//! For each route `r = (token, slot)` with expert `e >= 0`:
//!
//! ```text
//! row_of_route[r] = number of routes with an expert below e, or with expert e and a smaller number
//! packed_rows[row_of_route[r]] = quant_front(x[token])
//! counts[e] = number of routes to e
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `x` | `[num_tokens, hidden]` | bf16 or f16 |
//! | `topk_ids` | `[num_tokens, top_k]` | i32, -1 for no expert |
//! | `packed_rows` | `[num_routes, hidden + 32]` | bytes: `hidden` int8, the fp32 row scale, 28 zero bytes |
//! | `row_of_route` | `[num_tokens * top_k]` | i32, -1 for no row |
//! | `counts` | `[num_experts]` | u32 |
#![deny(missing_docs)]

pub mod reference;
