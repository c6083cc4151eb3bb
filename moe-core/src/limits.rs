//! Every limit of the layer, in one place. [`crate::Problem`] checks them on construction; nothing
//! checks them again.

/// Ranks of a world.
pub const MAX_RANKS: u32 = 1024;
/// Experts of all ranks.
pub const MAX_EXPERTS: u32 = 4096;
/// Experts per token.
pub const MAX_TOP_K: u32 = 64;
/// Width of a token.
pub const MAX_HIDDEN: u32 = 65536;
/// Width after the activation.
pub const MAX_INTERMEDIATE: u32 = 65536;
/// `hidden` and `intermediate` are multiples of this: on-chip memory is moved in 32-byte units and a
/// row of int8 values must start at one.
pub const WIDTH_ALIGN: u32 = 32;
/// Bytes behind the int8 values of a packed row. The first four hold the fp32 row scale.
pub const PACKED_ROW_TAIL_BYTES: u64 = 32;
/// Added to every published count, so that a count of zero is told from no count yet.
pub const COUNT_MARKER: i32 = 0x0080_0000;
/// Row numbers and counts are int32 and carry [`COUNT_MARKER`].
pub const MAX_ROWS: u32 = (i32::MAX - COUNT_MARKER) as u32;
