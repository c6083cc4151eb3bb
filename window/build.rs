//! Gives device code the map of the windows, and access to them.

fn main() {
    let headers = bisheng_build::Headers::new().generate("megamoe/window_map.h", &["src/map.rs"]);
    if let Err(error) = headers.export(&["kernel"]) {
        error.exit();
    }
}
