//! Values between the host and a device's global memory.

use bytemuck::Pod;
use moe_core::Gm;

use crate::device::{Buffer, Device, DeviceError};

/// Global memory that holds `values`.
///
/// # Errors
/// As [`Device::alloc`].
pub fn upload<T: Pod>(device: &dyn Device, values: &[T]) -> Result<Box<dyn Buffer>, DeviceError> {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let mut buffer = device.alloc(bytes.len() as u64)?;
    buffer.write(0, bytes)?;
    Ok(buffer)
}

/// The first `len` values of a buffer.
///
/// # Errors
/// As [`Buffer::read`].
pub fn download<T: Pod>(buffer: &dyn Buffer, len: usize) -> Result<Vec<T>, DeviceError> {
    let mut values = vec![T::zeroed(); len];
    buffer.read(0, bytemuck::cast_slice_mut(&mut values))?;
    Ok(values)
}

/// A buffer's memory as a view of a kernel.
#[must_use]
pub fn view<T>(buffer: &dyn Buffer) -> Gm<T> {
    Gm::at(buffer.address())
}
