//! Compiles the stage's kernels and exports its headers.

fn main() {
    bisheng_build::stage("dispatch");
}
