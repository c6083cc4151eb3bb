//! Tells the crate where kernels and their headers are, and lets the executable export what kernels call: mutants are
//! libraries that it opens.

fn main() {
    let folders = std::env::join_paths(bisheng_build::include_folders()).unwrap_or_default();
    println!(
        "cargo::rustc-env=MEGAMOE_KERNEL_FOLDERS={}",
        folders.to_string_lossy()
    );
    println!("cargo::rustc-link-arg-bins=-rdynamic");
}
