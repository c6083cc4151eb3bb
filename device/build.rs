//! Exports the PTO host headers to the build scripts of dependents, and compiles what checked kernels call.

fn main() {
    let headers =
        bisheng_build::Headers::new().generate("megamoe/device_abi.h", &["src/abi/types.rs"]);
    let build = || {
        headers.export(&["include"])?;
        bisheng_build::compile_support(&["src/checked/hooks.cpp"], "include")
    };
    if let Err(error) = build() {
        error.exit();
    }
}
