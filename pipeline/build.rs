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
    FusedKernel::build_all(&[
        FusedKernel::new("megamoe_fused_silu"),
        FusedKernel::new("megamoe_fused_gelu").with(
            Slot::Swiglu,
            "swiglu.h",
            "megamoe::Swiglu<megamoe::Gelu, Sync>",
        ),
    ])
}
