//! C++ headers of Rust declarations.

use bisheng_build::{HeaderError, cpp_header};

const SOURCE: &str = "
/// Sizes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Rows.
    pub rows: Gm<f16>,
    pub count: u32,
    pub flags: [u8; 4],
}

#[repr(C)]
pub struct Outer {
    pub sizes: Sizes,
    pub scale: f32,
    pub epoch: i32,
}

/// Not shared: its layout is Rust's.
pub struct Private {
    pub name: String,
}

#[repr(u8)]
pub enum Kind {
    /// First.
    Set,
    Add = 4,
    Other,
}

pub const MAX_ROWS: u32 = 1_024;
pub const NAME: &str = \"x\";
";

#[test]
fn shared_declarations_have_a_counterpart() {
    let header = cpp_header(&[SOURCE]).unwrap();
    for part in [
        "// Sizes.\nstruct Sizes {\n  __gm__ half * rows;\n  uint32_t count;\n  uint8_t flags[4];\n};",
        "static_assert(sizeof(Sizes) == 16);",
        "static_assert(offsetof(Sizes, flags) == 12);",
        "  Sizes sizes;\n  float scale;\n  int32_t epoch;",
        "static_assert(sizeof(Outer) == 24);",
        "enum class Kind : uint8_t {\n  Set = 0,\n  Add = 4,\n  Other = 5,\n};",
        "constexpr uint32_t kMaxRows = 1024;",
    ] {
        assert!(header.contains(part), "{part}\nis not in\n{header}");
    }
    assert!(
        !header.contains("Private") && !header.contains("NAME"),
        "{header}"
    );
}

#[test]
fn hidden_bytes_are_refused() {
    let source = "#[repr(C)]\npub struct Bad {\n    pub small: u32,\n    pub big: u64,\n}\n";
    let error = cpp_header(&[source]).unwrap_err();
    assert!(
        matches!(&error, HeaderError::Padding { field, offset: 4, align: 8, .. } if field == "big")
    );
    assert!(error.to_string().contains("Bad.big"), "{error}");
}

#[test]
fn a_type_without_a_counterpart_is_named() {
    let source = "#[repr(C)]\npub struct Bad {\n    pub list: Vec<u8>,\n}\n";
    let error = cpp_header(&[source]).unwrap_err().to_string();
    assert_eq!(error, "Bad.list: no C++ type for Vec<u8>");
}
