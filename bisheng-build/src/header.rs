//! C++ headers of Rust declarations.

use std::collections::HashMap;
use std::fmt::Write;

use crate::parse::{Item, items};

/// A source whose declarations have no C++ counterpart.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// A form that the reader does not know.
    #[error("{0}")]
    Syntax(String),
    /// A field whose type has no counterpart.
    #[error("{owner}.{field}: no C++ type for {rust_type}")]
    Type {
        /// The struct.
        owner: String,
        /// The field.
        field: String,
        /// Its type.
        rust_type: String,
    },
    /// The compiler would insert bytes: a `Pod` struct has none.
    #[error(
        "{owner}.{field} is at byte {offset}, not a multiple of {align}: order the fields by size"
    )]
    Padding {
        /// The struct.
        owner: String,
        /// The field, or the end.
        field: String,
        /// Where it would be.
        offset: usize,
        /// What it must be a multiple of.
        align: usize,
    },
}

/// C++ name, size and alignment of a type.
#[derive(Clone)]
struct CppType {
    name: String,
    size: usize,
    align: usize,
}

struct Generator {
    structs: HashMap<String, CppType>,
    text: String,
}

/// The C++ header of the declarations in `sources` (one after the other), in namespace `megamoe`.
/// `Gm<T>` becomes `__gm__ T *`. Sizes and offsets are asserted on the C++ side.
///
/// # Errors
/// [`HeaderError`] names the declaration that has no counterpart.
pub fn cpp_header(sources: &[&str]) -> Result<String, HeaderError> {
    let mut generator = Generator {
        structs: HashMap::new(),
        text: String::new(),
    };
    for source in sources {
        for (docs, item) in items(source).map_err(HeaderError::Syntax)? {
            generator.item(&docs, item)?;
        }
    }
    let body = generator.text;
    // Only declarations for kernels need the kernels' own types.
    let device = if body.contains("__gm__") || body.contains("half") {
        "#include \"kernel_operator.h\"\n\n"
    } else {
        ""
    };
    Ok(format!(
        "// Generated from Rust; edit the Rust source.\n#pragma once\n\n#include <cstddef>\n\
         #include <cstdint>\n\n{device}namespace megamoe {{\n{body}\n}}  // namespace megamoe\n"
    ))
}

impl Generator {
    fn item(&mut self, docs: &[String], item: Item) -> Result<(), HeaderError> {
        self.text.push('\n');
        for doc in docs {
            self.line(&format!("// {doc}"));
        }
        match item {
            Item::Struct { name, fields } => self.structure(name, &fields),
            Item::Enum { name, values } => {
                self.line(&format!("enum class {name} : uint8_t {{"));
                for (value, number) in values {
                    self.line(&format!("  {value} = {number},"));
                }
                self.line("};");
                let cpp = CppType {
                    name: name.clone(),
                    size: 1,
                    align: 1,
                };
                self.structs.insert(name, cpp);
                Ok(())
            }
            Item::Const {
                name,
                rust_type,
                value,
            } => {
                if let Some(cpp) = primitive(&rust_type) {
                    self.line(&format!(
                        "constexpr {} {} = {value};",
                        cpp.name,
                        constant_name(&name)
                    ));
                }
                Ok(())
            }
        }
    }

    fn line(&mut self, text: &str) {
        // Writing to a string never fails.
        let _ = writeln!(self.text, "{}", text.trim_end());
    }

    fn structure(&mut self, name: String, fields: &[(String, String)]) -> Result<(), HeaderError> {
        let (mut offset, mut max_align) = (0usize, 1);
        let mut asserts = String::new();
        self.line(&format!("struct {name} {{"));
        for (field, rust_type) in fields {
            let error = || HeaderError::Type {
                owner: name.clone(),
                field: field.clone(),
                rust_type: rust_type.clone(),
            };
            let (cpp, suffix, count) = self.field_type(rust_type).ok_or_else(error)?;
            check_padding(&name, field, offset, cpp.align)?;
            self.line(&format!("  {} {field}{suffix};", cpp.name));
            let _ = writeln!(
                asserts,
                "static_assert(offsetof({name}, {field}) == {offset});"
            );
            offset += cpp.size * count;
            max_align = max_align.max(cpp.align);
        }
        self.line("};");
        check_padding(&name, "end", offset, max_align)?;
        self.line(&format!("static_assert(sizeof({name}) == {offset});"));
        self.text.push_str(&asserts);
        let cpp = CppType {
            name: name.clone(),
            size: offset,
            align: max_align,
        };
        self.structs.insert(name, cpp);
        Ok(())
    }

    /// C++ type, array suffix and number of elements.
    fn field_type(&self, rust_type: &str) -> Option<(CppType, String, usize)> {
        if let Some(array) = rust_type.strip_prefix('[') {
            let (element, count) = array.strip_suffix(']')?.split_once("; ")?;
            let count: usize = count.parse().ok()?;
            return Some((self.element(element)?, format!("[{count}]"), count));
        }
        Some((self.element(rust_type)?, String::new(), 1))
    }

    fn element(&self, rust_type: &str) -> Option<CppType> {
        if let Some(target) = rust_type.strip_prefix("Gm<") {
            let target = self.element(target.strip_suffix('>')?)?;
            let name = format!("__gm__ {} *", target.name);
            return Some(CppType {
                name,
                size: 8,
                align: 8,
            });
        }
        primitive(rust_type).or_else(|| self.structs.get(rust_type).cloned())
    }
}

fn primitive(rust_type: &str) -> Option<CppType> {
    let (name, size) = match rust_type {
        "u8" => ("uint8_t", 1),
        "i8" => ("int8_t", 1),
        "u16" => ("uint16_t", 2),
        "i16" => ("int16_t", 2),
        "u32" => ("uint32_t", 4),
        "i32" => ("int32_t", 4),
        "u64" => ("uint64_t", 8),
        "i64" => ("int64_t", 8),
        "f32" => ("float", 4),
        "f16" => ("half", 2),
        _ => return None,
    };
    Some(CppType {
        name: name.to_owned(),
        size,
        align: size,
    })
}

fn check_padding(owner: &str, field: &str, offset: usize, align: usize) -> Result<(), HeaderError> {
    if offset.is_multiple_of(align) {
        return Ok(());
    }
    Err(HeaderError::Padding {
        owner: owner.to_owned(),
        field: field.to_owned(),
        offset,
        align,
    })
}

/// `MAX_TOP_K` as `kMaxTopK`.
fn constant_name(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_owned() + &rest.to_lowercase()
    });
    "k".to_owned() + &words.collect::<String>()
}
