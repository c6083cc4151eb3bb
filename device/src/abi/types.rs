//! What passes between the headers and the virtual device. The C++ side of this file is generated.
#![allow(dead_code, reason = "some values are made in C++ only")]

use bytemuck::{Pod, Zeroable};

/// Element type of a tile or of global memory.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DType {
    /// 8-bit signed.
    I8 = 0,
    /// 8-bit unsigned.
    U8 = 1,
    /// 16-bit signed.
    I16 = 2,
    /// 16-bit unsigned.
    U16 = 3,
    /// 32-bit signed.
    I32 = 4,
    /// 32-bit unsigned.
    U32 = 5,
    /// 64-bit signed.
    I64 = 6,
    /// 64-bit unsigned.
    U64 = 7,
    /// IEEE half.
    F16 = 8,
    /// bfloat16.
    Bf16 = 9,
    /// IEEE single.
    F32 = 10,
}

/// An on-chip memory.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Unified buffer of a vector core.
    Ub = 0,
    /// L1 of a matrix core.
    L1 = 1,
    /// Left operand.
    L0a = 2,
    /// Right operand.
    L0b = 3,
    /// Accumulators.
    L0c = 4,
    /// Bias table.
    Bias = 5,
    /// Scales of the fixpipe.
    Fixpipe = 6,
}

/// How a tile's elements lie in its memory.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileLayout {
    /// Row after row.
    RowMajor = 0,
    /// Column after column.
    ColMajor = 1,
    /// Columns of fractals, each 16 rows of 32 bytes.
    Nz = 2,
    /// As an operand or accumulator of the matrix unit: only the unit knows.
    Unit = 3,
}

/// Layout of global memory.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GmLayout {
    /// Row after row.
    Nd = 0,
    /// Column after column.
    Dn = 1,
    /// Columns of fractals.
    Nz = 2,
}

/// A tile: a piece of an on-chip memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct TileView {
    /// Byte address in the memory.
    pub(crate) address: u32,
    /// Rows that the tile has room for.
    pub(crate) rows: u32,
    /// Columns that the tile has room for.
    pub(crate) cols: u32,
    /// Rows that hold data.
    pub(crate) valid_rows: u32,
    /// Columns that hold data.
    pub(crate) valid_cols: u32,
    /// [`DType`].
    pub(crate) dtype: u8,
    /// [`Memory`].
    pub(crate) memory: u8,
    /// [`TileLayout`].
    pub(crate) layout: u8,
    /// Keeps the size a multiple of the alignment.
    pub(crate) reserved: u8,
}

/// A piece of global memory: five dimensions, outermost first, strides in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct GmView {
    /// Address of the first element.
    pub(crate) data: u64,
    /// Elements of each dimension.
    pub(crate) shape: [i64; 5],
    /// Elements from one to the next in each dimension.
    pub(crate) stride: [i64; 5],
    /// [`DType`].
    pub(crate) dtype: u32,
    /// [`GmLayout`].
    pub(crate) layout: u32,
}

/// Who runs: read once by a kernel's core.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct CoreInfo {
    /// Physical core, `0..num_blocks`.
    pub(crate) block_idx: u32,
    /// Physical cores of the launch.
    pub(crate) num_blocks: u32,
    /// Which vector core of the physical core.
    pub(crate) subblock_idx: u32,
    /// Vector cores of the physical core.
    pub(crate) num_subblocks: u32,
    /// 1 for the matrix core, 0 for a vector core.
    pub(crate) is_aic: u32,
}

/// Two operands, elementwise.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    /// Sum.
    Add = 0,
    /// Difference.
    Sub = 1,
    /// Product.
    Mul = 2,
    /// Quotient.
    Div = 3,
    /// Larger one.
    Max = 4,
    /// Smaller one.
    Min = 5,
}

/// One operand, elementwise.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    /// Magnitude.
    Abs = 0,
    /// Exponential.
    Exp = 1,
    /// Negation.
    Neg = 2,
}

/// How a conversion rounds.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// As `Rint`.
    None = 0,
    /// To nearest, ties to even.
    Rint = 1,
    /// To nearest, ties away from zero.
    Away = 2,
    /// Toward minus infinity.
    Floor = 3,
    /// Toward infinity.
    Ceil = 4,
    /// Toward zero.
    Trunc = 5,
    /// Inexact results get an odd last bit.
    Odd = 6,
}

/// How a signal is compared.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// Equal.
    Eq = 0,
    /// Not equal.
    Ne = 1,
    /// Greater.
    Gt = 2,
    /// Greater or equal.
    Ge = 3,
    /// Less.
    Lt = 4,
    /// Less or equal.
    Le = 5,
}

/// Which cores a barrier is for.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    /// All vector cores.
    Aiv = 0,
    /// All matrix cores.
    Aic = 1,
    /// All cores.
    All = 2,
}
