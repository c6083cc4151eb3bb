//! int8 matrix tiles of the virtual device against the machine's peak, on one core.
//!
//! `cargo bench -p megamoe-bench --bench matmul`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use megamoe_bench::peak::Int8Peak;
use megamoe_bench::{best_time, gops};
use megamoe_device::compute::Level;
use megamoe_device::compute::matmul::{
    Left, Product, Right, Scratch, copy_left, multiply, row_sums,
};

struct Tile {
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
    fn new(m: usize, n: usize, k: usize) -> Self {
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

    fn operations(&self) -> f64 {
        2.0 * (self.m * self.n * self.k) as f64
    }

    fn multiply(&mut self, level: Level) {
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

    fn extract(&mut self, level: Level) {
        // SAFETY: the fractals are as many bytes as the operand.
        unsafe {
            let (source, stride) = (self.fractals.as_ptr(), self.m * 32);
            copy_left(self.left.as_mut_ptr(), source, stride, (self.m, self.k));
            row_sums(level, self.left.as_ptr(), stride, self.k, &mut self.sums);
        }
    }
}

fn main() {
    let level = Level::detect();
    let peak = Int8Peak::of_this_machine().map(|peak| peak.gops());
    match peak {
        Some(peak) => println!("peak of one core, {level:?}: {peak:.1} GOPS"),
        None => println!("no register-only loop for {level:?}: ratios are left out"),
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "m x n x k",
        "product GOPS",
        "of peak",
        "with extraction GOPS",
        "of peak",
    ]);
    for (m, n, k) in [
        (256, 512, 2048),
        (128, 512, 2048),
        (128, 256, 512),
        (128, 256, 128),
        (16, 256, 512),
        (12, 256, 512),
        (1, 256, 512),
    ] {
        let mut tile = Tile::new(m, n, k);
        let product = gops(
            tile.operations(),
            best_time(20, 200, || tile.multiply(level)),
        );
        let whole = best_time(20, 200, || {
            tile.extract(level);
            tile.multiply(level);
        });
        let whole = gops(tile.operations(), whole);
        let share = |value: f64| {
            peak.map_or_else(String::new, |peak| format!("{:.1} %", 100.0 * value / peak))
        };
        table.add_row([
            format!("{m} x {n} x {k}"),
            format!("{product:.1}"),
            share(product),
            format!("{whole:.1}"),
            share(whole),
        ]);
    }
    println!("{table}");
}
