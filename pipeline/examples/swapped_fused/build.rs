//! Builds a fused kernel with two other stage classes: a line for each.

use bisheng_build::{FusedKernel, Slot};

fn main() {
    let kernel = FusedKernel::new("swapped_layer")
        .with(
            Slot::Swiglu,
            "swiglu.h",
            "megamoe::Swiglu<megamoe::Gelu, Sync>",
        )
        .with(
            Slot::Combine,
            "rotated_combine.h",
            "RotatedCombine<Out, Sync>",
        );
    if let Err(error) = kernel.build() {
        error.exit();
    }
}
