//! Combine: scales expert outputs and returns them to the rank that each row came from.
//!
//! ```text
//! returned_rows[source][run.source_row + i] = T(f32(h2[run.row + i]) * row_scale[run.row + i])
//! ```
//!
//! for the runs of [`moe_core::exchange::CountTable::runs`]; `T` is the output type, nearest even.
//!
//! | view | shape | type |
//! |---|---|---|
//! | `h2` | `[num_rows, hidden]` | f16 |
//! | `row_scale` | `[num_rows]` | f32 |
//! | `returned_rows` of each source | `[num_routes, hidden]` | f16 or bf16 |
//!
//! A returned row has the number of the packed row that it answers. A row that the capacity dropped is
//! not written.
#![deny(missing_docs)]

pub mod reference;
