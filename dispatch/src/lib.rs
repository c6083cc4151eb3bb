//! Dispatch: pulls the packed rows of this rank's experts from every source rank.
//!
//! For each local expert and source rank, in the order of [`moe_core::exchange::CountTable::runs`]:
//!
//! ```text
//! rows[run.row + i]      = packed_rows[source][run.source_row + i][.. hidden]
//! row_scale[run.row + i] = packed_rows[source][run.source_row + i][hidden .. hidden + 4] as f32
//! ```
//!
//! | view | shape | type |
//! |---|---|---|
//! | `packed_rows` of each source | `[num_routes, hidden + 32]` | bytes |
//! | `rows` | `[num_rows, hidden]` | i8 |
//! | `row_scale` | `[num_rows]` | f32 |
//!
//! `num_rows` is at most `max_output_size`; what does not fit is dropped and counted.
#![deny(missing_docs)]

pub mod reference;
