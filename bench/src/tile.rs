//! A tile of the matrix unit, without a kernel around it.

use megamoe_device::compute::Level;
use megamoe_device::compute::matmul::{
    Left, Product, Right, Scratch, copy_left, multiply, row_sums,
};

/// Operands of one product of int8 and its result.
#[derive(Debug)]
pub struct Tile {
    m: usize,
    n: usize,
    k: usize,
    left: Vec<u8>,
    right: Vec<u8>,
    sums: Vec<i32>,
    c: Vec<i32>,
    fractals: Vec<u8>,
    scratch: Box<Scratch>,
}

impl Tile {
    /// Operands with some values: `m` rows, `n` columns, `k` products for each.
    #[must_use]
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        let bytes = |len: usize| (0..len).map(|i| (i * 7 % 251) as u8).collect::<Vec<_>>();
        Self {
            m,
            n,
            k,
            left: bytes(m * k),
            right: bytes(n * k),
            sums: vec![0; m],
            c: vec![0; m * n],
            fractals: bytes(k * m),
            scratch: Box::default(),
        }
    }

    /// Multiplications and additions of a product.
    #[must_use]
    pub fn operations(&self) -> f64 {
        2.0 * (self.m * self.n * self.k) as f64
    }

    /// Multiplies and adds to the result.
    pub fn multiply(&mut self, level: Level) {
        let product = Product {
            m: self.m,
            n: self.n,
            k: self.k,
            c_stride: self.n,
            accumulate: true,
        };
        // SAFETY: all operands have the sizes that the product says.
        unsafe {
            let left = Left {
                data: self.left.as_ptr(),
                piece_stride: self.m * 32,
                sums: &self.sums,
            };
            let right = Right {
                data: self.right.as_ptr(),
                block_stride: self.k * 32,
            };
            let c = self.c.as_mut_ptr();
            multiply(level, &product, left, right, &mut self.scratch, c);
        }
    }

    /// Copies the left operand as from L1 to L0A, and sums its rows.
    pub fn extract(&mut self, level: Level) {
        // SAFETY: the fractals are as many bytes as the operand.
        unsafe {
            let (source, stride) = (self.fractals.as_ptr(), self.m * 32);
            copy_left(self.left.as_mut_ptr(), source, stride, (self.m, self.k));
            row_sums(level, self.left.as_ptr(), stride, self.k, &mut self.sums);
        }
    }
}
