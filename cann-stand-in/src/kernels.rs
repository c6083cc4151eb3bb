//! `launch_{kernel}` for every kernel of the layer: puts the kernel that was compiled for the host into a stream.

use std::ffi::c_void;

use megamoe_pipeline::npu;

use crate::acl::{SYNC_ADDRESS, stream_for_launch};
use crate::state;
use crate::stream::Work;

/// Puts a kernel into a stream. A launch has no result: what is wrong is said to the error stream and the kernel does
/// not run, so that who waits for its outputs finds none.
fn launch(name: &str, num_blocks: u32, stream: *mut c_void, sync: u64, args: u64) {
    let kernel = npu::kernels()
        .into_iter()
        .find(|kernel| kernel.name == name);
    let Some(kernel) = kernel.filter(|_| sync == SYNC_ADDRESS) else {
        eprintln!("cann-stand-in: {name} with flags at {sync:#x} can't be launched");
        return;
    };
    match stream_for_launch(stream) {
        Ok(stream) => stream.give(Work::Launch {
            kernel,
            num_blocks,
            args,
        }),
        Err(failure) => {
            eprintln!("cann-stand-in: launch of {name}: {}", failure.message);
            state::failed(&failure);
        }
    }
}

macro_rules! launchers {
    ($($kernel:ident)*) => {
        /// Kernels that have a function here.
        pub const NAMES: &[&str] = &[$(stringify!($kernel)),*];

        $(
            const _: () = {
                #[unsafe(export_name = concat!("launch_", stringify!($kernel)))]
                unsafe extern "C" fn launcher(num_blocks: u32, stream: *mut c_void, sync: u64, args: u64) {
                    launch(stringify!($kernel), num_blocks, stream, sync, args);
                }
            };
        )*
    };
}

launchers! {
    megamoe_combine
    megamoe_dispatch
    megamoe_front_full_load
    megamoe_front_multi_core
    megamoe_front_one_core
    megamoe_fused_gelu
    megamoe_fused_silu
    megamoe_gmm
    megamoe_swiglu_gelu
    megamoe_swiglu_silu
    megamoe_unpermute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_layer_is_here() {
        let names: Vec<_> = npu::kernels().iter().map(|kernel| kernel.name).collect();
        assert_eq!(names, NAMES);
    }
}
