//! Exports the PTO host headers to the build scripts of dependents.

fn main() {
    let headers =
        bisheng_build::Headers::new().generate("megamoe/device_abi.h", &["src/abi/types.rs"]);
    if let Err(error) = headers.export(&["include"]) {
        error.exit();
    }
}
