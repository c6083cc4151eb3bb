//! Gives device code the views of every slot, and what all stages share.

fn main() {
    let headers = bisheng_build::Headers::new()
        .generate("megamoe/slot.h", &["src/slot.rs"])
        .generate("megamoe/onchip.h", &["src/onchip.rs"]);
    if let Err(error) = headers.export(&["kernel"]) {
        error.exit();
    }
}
