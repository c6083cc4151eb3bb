//! Compiles the example kernels.

use bisheng_build::{BuildError, Headers, Kernels};

fn main() {
    if let Err(error) = build() {
        error.exit();
    }
}

fn build() -> Result<(), BuildError> {
    Headers::new()
        .generate("examples/args.h", &["src/args.rs"])
        .export(&["kernel"])?;
    Kernels::in_folder("kernel")?.compile()
}
