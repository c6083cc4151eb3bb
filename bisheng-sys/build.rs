//! With the feature `bindgen`: makes the bindings from the headers of the installed CANN.

#[cfg(feature = "bindgen")]
#[path = "build/generate.rs"]
mod generate;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "bindgen")]
    if let Err(error) = generate::all() {
        println!("cargo::error={error}");
        std::process::exit(1);
    }
}
