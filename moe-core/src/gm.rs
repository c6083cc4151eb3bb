//! Typed addresses in a device's global memory.

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};

/// An address in global memory (GM) where values of `T` lie. It is plain data: holding one gives no
/// access on the host. Generated C++ headers declare it as `__gm__ T *`.
#[repr(transparent)]
#[derive(Pod, Zeroable)]
pub struct Gm<T> {
    address: u64,
    element: PhantomData<T>,
}

impl<T> Gm<T> {
    /// No memory: for views that a launch does not use.
    pub const NULL: Self = Self::at(0);

    /// The view at byte address `address`.
    #[must_use]
    pub const fn at(address: u64) -> Self {
        Self {
            address,
            element: PhantomData,
        }
    }

    /// Byte address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.address
    }

    /// The view `count` elements further on.
    #[must_use]
    pub const fn add(self, count: u64) -> Self {
        Self::at(self.address + count * size_of::<T>() as u64)
    }

    /// The same address, read as values of `U`.
    #[must_use]
    pub const fn cast<U>(self) -> Gm<U> {
        Gm::at(self.address)
    }
}

// Written out because a derive would ask the same of `T`.
impl<T> Clone for Gm<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Gm<T> {}

impl<T> PartialEq for Gm<T> {
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> Eq for Gm<T> {}

impl<T> std::fmt::Debug for Gm<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gm<{}>({:#x})", std::any::type_name::<T>(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_count_elements() {
        let view = Gm::<i32>::at(0x1000);
        assert_eq!(view.add(3).address(), 0x100c);
        assert_eq!(view.cast::<u8>().add(3).address(), 0x1003);
        assert_eq!(size_of::<Gm<i32>>(), 8);
    }
}
