//! A device for tests, and instructions run on it one at a time.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use bytemuck::Pod;
use megamoe_device::{
    Device, DeviceError, Executor, ExecutorOptions, Kernel, VirtualDevice, download, upload, view,
};
use megamoe_device_examples::{ConformanceArgs, run};
use moe_core::{Gm, Soc};

pub(crate) const MAX_ROWS: usize = 16;
pub(crate) const MAX_COLS: usize = 96;
/// Elements from row to row in global memory: more than a row, so that stray writes are seen.
pub(crate) const STRIDE: usize = MAX_COLS + 5;

pub(crate) fn device_with(soc: &str, options: ExecutorOptions) -> VirtualDevice {
    let executor = Arc::new(Executor::new(options).unwrap());
    VirtualDevice::new(Soc::named(soc).unwrap(), 0, executor)
}

pub(crate) fn device() -> VirtualDevice {
    device_with(
        "Ascend910B1",
        ExecutorOptions {
            poison: true,
            ..ExecutorOptions::default()
        },
    )
}

/// An instruction on `rows x cols` elements; operands and result are `[rows, STRIDE]`.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) kernel: Kernel,
    pub(crate) op: u32,
    pub(crate) dtype: u32,
    pub(crate) scalar: u64,
    pub(crate) mode: u32,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

impl Case {
    /// The whole result, filled with `untouched` before. Every element outside the region must still be that.
    pub(crate) fn run<A: Pod, O: Pod + PartialEq + std::fmt::Debug>(
        &self,
        device: &dyn Device,
        a: &[A],
        b: &[A],
        untouched: O,
    ) -> Result<Vec<O>, DeviceError> {
        let len = MAX_ROWS * STRIDE;
        let (a, b) = (upload(device, a)?, upload(device, b)?);
        let out = upload(device, &vec![untouched; len])?;
        let args = ConformanceArgs {
            a: view(a.as_ref()),
            b: view(b.as_ref()),
            out: view(out.as_ref()),
            scalar: self.scalar,
            op: self.op,
            dtype: self.dtype,
            rows: self.rows as u32,
            cols: self.cols as u32,
            stride: STRIDE as u32,
            mode: self.mode,
        };
        // SAFETY: the kernels take these arguments; buffers have `MAX_ROWS * STRIDE` elements.
        unsafe { run(device, &self.kernel, 1, &args)? };
        download(out.as_ref(), len)
    }

    pub(crate) fn contains(&self, element: usize) -> bool {
        element / STRIDE < self.rows && element % STRIDE < self.cols
    }
}

pub(crate) const NO_VIEW: Gm<u8> = Gm::NULL;

/// `MAX_ROWS * STRIDE` values, special ones first, then random ones.
pub(crate) fn operands<T: Copy>(special: &[T], mut random: impl FnMut() -> T) -> Vec<T> {
    let len = MAX_ROWS * STRIDE;
    let mut values: Vec<T> = special.iter().copied().take(len).collect();
    values.resize_with(len, &mut random);
    values
}
