//! Compiles the standard fused kernels, and gives the headers of the fused kernel to dependents.

use bisheng_build::{BuildError, FusedKernel, Headers, Slot};

fn main() {
    if let Err(error) = build() {
        error.exit();
    }
}

fn build() -> Result<(), BuildError> {
    Headers::new()
        .generate(
            "pipeline/fused_args.h",
            &["src/schedule/tiling.rs", "src/layer/fused_args.rs"],
        )
        .export(&["kernel"])?;
    FusedKernel::build_all(&[
        FusedKernel::new("megamoe_fused_silu"),
        FusedKernel::new("megamoe_fused_gelu").with(
            Slot::Swiglu,
            "swiglu.h",
            "megamoe::Swiglu<megamoe::Gelu, Sync>",
        ),
    ])
}
