//! Matrix tiles: L1, extraction, product, fixpipe, against naive sums; and the mixed kernel.

mod common;

use std::sync::Arc;

use common::{device, device_with};
use half::f16;
use megamoe_device::{
    Device, DeviceError, Executor, ExecutorOptions, VirtualDevice, download, upload, view,
};
use megamoe_device_examples::{GEMM_SCALE, GemmArgs, MATMUL, run};
use moe_core::rng::Rng;
use moe_core::weights::packed_index;
use moe_core::{Soc, numerics};
use proptest::prelude::*;

struct Problem {
    m: usize,
    k: usize,
    n: usize,
    a: Vec<i8>,
    /// `[k, n]`.
    b: Vec<i8>,
    channel_scale: Vec<u64>,
    row_scale: Vec<f32>,
}

impl Problem {
    /// Full range of int8, -128 and the extremes included.
    fn new(m: usize, k: usize, n: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut bytes = |len: usize| (0..len).map(|_| rng.next_u64() as i8).collect::<Vec<_>>();
        let (mut a, mut b) = (bytes(m * k), bytes(k * n));
        a[0] = i8::MIN;
        b[0] = i8::MIN;
        // Low bits set, so that it matters whether they are dropped; junk in the high half.
        let scale = |_| {
            u64::from((rng.normal_f32().abs() * 1e-3 + 1e-4).to_bits() | 0x1fff)
                | 0xdead_0000_0000_0000
        };
        let channel_scale = (0..n).map(scale).collect();
        let row_scale = (0..m).map(|row| 0.5 + row as f32 / 16.0).collect();
        Self {
            m,
            k,
            n,
            a,
            b,
            channel_scale,
            row_scale,
        }
    }

    fn packed_b(&self) -> Vec<i8> {
        let mut packed = vec![0; self.k.next_multiple_of(16) * self.n.next_multiple_of(32)];
        for k in 0..self.k {
            for n in 0..self.n {
                packed[packed_index(self.k as u64, k as u64, n as u64) as usize] =
                    self.b[k * self.n + n];
            }
        }
        packed
    }

    fn product(&self, row: usize, column: usize) -> i32 {
        let a = &self.a[row * self.k..(row + 1) * self.k];
        let products = a
            .iter()
            .enumerate()
            .map(|(k, &a)| i32::from(a) * i32::from(self.b[k * self.n + column]));
        products.sum()
    }

    /// `(h, out)` of a launch that puts `epoch` into its signals.
    fn run(
        &self,
        device: &dyn Device,
        kernel: &megamoe_device::Kernel,
        blocks: u32,
        epochs: i32,
    ) -> Result<(Vec<u16>, Vec<u32>), DeviceError> {
        let len = self.m * self.n;
        let (a, b) = (upload(device, &self.a)?, upload(device, &self.packed_b())?);
        let (channel, row) = (
            upload(device, &self.channel_scale)?,
            upload(device, &self.row_scale)?,
        );
        let h = upload(device, &vec![0x7e11u16; len])?;
        let out = upload(device, &vec![0x7fc0_1111u32; len])?;
        let ready = upload(device, &vec![0i32; 16 * (len / 64 + 64)])?;
        for epoch in 1..=epochs {
            let args = GemmArgs {
                a: view(a.as_ref()),
                b: view(b.as_ref()),
                channel_scale: view(channel.as_ref()),
                row_scale: view(row.as_ref()),
                h: view(h.as_ref()),
                out: view(out.as_ref()),
                ready: view(ready.as_ref()),
                m: self.m as u32,
                k: self.k as u32,
                n: self.n as u32,
                epoch,
            };
            // SAFETY: the kernels take these arguments, and every buffer has the size they say.
            unsafe { run(device, kernel, blocks, &args)? };
        }
        Ok((download(h.as_ref(), len)?, download(out.as_ref(), len)?))
    }

    fn check_gemm_scale(&self, device: &dyn Device, blocks: u32, epochs: i32) {
        let (h, out) = self.run(device, &GEMM_SCALE, blocks, epochs).unwrap();
        for i in 0..self.m * self.n {
            let (row, column) = (i / self.n, i % self.n);
            let scale = numerics::fixpipe_scale(self.channel_scale[column]);
            let want = numerics::fixpipe_f16(self.product(row, column), scale);
            assert_eq!(h[i], want.to_bits(), "h[{row}][{column}]");
            let want = want.to_f32() * self.row_scale[row];
            assert_eq!(out[i], want.to_bits(), "out[{row}][{column}]");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_tile_is_exact(m in 1usize..=64, steps in 1usize..=9, n in 1usize..=64, seed in any::<u64>()) {
        let problem = Problem::new(m, 32 * steps, n, seed);
        let (scaled, exact) = problem.run(&device(), &MATMUL, 1, 1).unwrap();
        for i in 0..m * n {
            let want = problem.product(i / n, i % n);
            prop_assert_eq!(exact[i] as i32, want, "element {}", i);
            // The scalar mode uses all bits of the scale.
            let scale = f32::from_bits(problem.channel_scale[0] as u32);
            let want = f16::from_f32((want as f32 * scale).clamp(-65504.0, 65504.0));
            prop_assert_eq!(scaled[i], want.to_bits(), "element {}", i);
        }
    }
}

#[test]
fn sums_of_extremes_do_not_overflow_early() {
    let mut problem = Problem::new(13, 4096, 33, 1);
    problem.a.fill(i8::MIN);
    problem.b.fill(i8::MIN);
    let (_, exact) = problem.run(&device(), &MATMUL, 1, 1).unwrap();
    assert!(exact.iter().all(|&sum| sum == 4096 * 128 * 128));
}

#[test]
fn the_mixed_kernel_on_1_2_and_24_blocks_and_1_and_2_workers() {
    for workers in [1, 2] {
        let device = device_with(
            "Ascend910B1",
            ExecutorOptions {
                workers,
                poison: true,
                ..Default::default()
            },
        );
        for blocks in [1, 2, 24] {
            Problem::new(150, 288, 200, 3).check_gemm_scale(&device, blocks, 3);
        }
    }
}

#[test]
fn the_mixed_kernel_under_200_seeds() {
    let soc = Soc::named("Ascend910B1").unwrap();
    let problem = Problem::new(70, 160, 96, 4);
    for seed in 0..200 {
        let options = ExecutorOptions {
            seed: Some(seed),
            ..Default::default()
        };
        let executor = Arc::new(Executor::new(options).unwrap());
        let device = VirtualDevice::new(soc.clone(), 0, executor);
        problem.check_gemm_scale(&device, [1, 2, 24][seed as usize % 3], 2);
    }
}
