//! Arguments of the example kernels, shared with their C++.

use bytemuck::{Pod, Zeroable};
use half::f16;
use moe_core::Gm;

/// Arguments of the conformance kernels. Views are row-major with `stride` elements from row to row.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct ConformanceArgs {
    /// First operand.
    pub a: Gm<u8>,
    /// Second operand.
    pub b: Gm<u8>,
    /// Result.
    pub out: Gm<u8>,
    /// Scalar operand, as bits.
    pub scalar: u64,
    /// Which instruction, in the order of the kernel.
    pub op: u32,
    /// Which type, in the order of the kernel.
    pub dtype: u32,
    /// Valid rows.
    pub rows: u32,
    /// Valid columns.
    pub cols: u32,
    /// Elements from row to row in global memory.
    pub stride: u32,
    /// Rounding mode, or another small choice.
    pub mode: u32,
}

/// Arguments of the matmul kernels: `[m, k] x [k, n]`, weights as columns of fractals.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct GemmArgs {
    /// `[m, k]`.
    pub a: Gm<i8>,
    /// Packed `[k, n]`: blocks of 32 columns, row after row.
    pub b: Gm<i8>,
    /// `[n]` scales of the fixpipe.
    pub channel_scale: Gm<u64>,
    /// `[m]` scales of the rows.
    pub row_scale: Gm<f32>,
    /// `[m, n]` halves between the cores.
    pub h: Gm<f16>,
    /// `[m, n]` result.
    pub out: Gm<f32>,
    /// One signal for each tile, 64 bytes apart, zero at first.
    pub ready: Gm<i32>,
    /// Rows.
    pub m: u32,
    /// Inner length, a multiple of 32.
    pub k: u32,
    /// Columns, a multiple of 32.
    pub n: u32,
    /// Launch, from 1: what signals hold when a tile is ready.
    pub epoch: i32,
}

/// Arguments of the corpus of kernels for checked mode.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct CorpusArgs {
    /// `[4096]` values that the host wrote.
    pub input: Gm<f32>,
    /// `[4096]` values that nobody wrote.
    pub output: Gm<f32>,
    /// `[4096]` words, zeros at first: signals, and bytes that cores pass to each other.
    pub words: Gm<i32>,
    /// `[65536]` bytes that the host wrote.
    pub bytes: Gm<i8>,
    /// `[2]` addresses of both ranks' windows. The first half of each is its owner's to write, the second the other's.
    pub windows: Gm<u64>,
    /// Memory of the other rank alone.
    pub other: Gm<f32>,
    /// This rank.
    pub rank: u32,
    /// Launch, from 1.
    pub epoch: i32,
}
