//! Compiles the standard fused kernels, and gives the headers of the fused kernel to dependents.

use bisheng_build::{BuildError, FusedKernel, Headers, Slot};

fn main() {
    name_commit();
    if let Err(error) = build() {
        error.exit();
    }
}

/// Tells the command which commit it was built from, for its figures.
fn name_commit() {
    const LOG: &str = "../.git/logs/HEAD";
    if std::path::Path::new(LOG).exists() {
        println!("cargo::rerun-if-changed={LOG}");
    }
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    let commit = match git {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).ok(),
        _ => None,
    };
    let commit = commit.as_deref().map_or("unknown", str::trim);
    println!("cargo::rustc-env=MEGAMOE_COMMIT={commit}");
}

fn build() -> Result<(), BuildError> {
    Headers::new()
        .generate(
            "pipeline/fused_args.h",
            &["src/schedule/tiling.rs", "src/layer/fused_args.rs"],
        )
        .export(&["kernel"])?;
    let fused = [
        FusedKernel::new("megamoe_fused_silu"),
        FusedKernel::new("megamoe_fused_gelu").with(
            Slot::Swiglu,
            "swiglu.h",
            "megamoe::Swiglu<megamoe::Gelu, Sync>",
        ),
    ];
    #[cfg(feature = "ascend")]
    build_for_npu(&fused)?;
    FusedKernel::build_all(&fused)
}

/// Builds all kernels for the NPU too, and tells the crate where they are.
#[cfg(feature = "ascend")]
fn build_for_npu(fused: &[FusedKernel]) -> Result<(), BuildError> {
    let library = bisheng_build::NpuKernels::of_dependencies()?
        .with_fused(fused)?
        .build("megamoe_npu_kernels")?;
    println!("cargo::rustc-env=MEGAMOE_NPU_KERNELS={}", library.display());
    Ok(())
}
