//! Reads the items of a Rust source that have a C++ counterpart. It knows the few forms that shared
//! declarations use, and refuses what it does not know.

/// An item with a C++ counterpart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A `#[repr(C)]` struct: fields as `(name, Rust type)`.
    Struct {
        name: String,
        fields: Vec<(String, String)>,
    },
    /// A `#[repr(u8)]` enum: `(name, value)`.
    Enum {
        name: String,
        values: Vec<(String, u64)>,
    },
    /// An integer constant.
    Const {
        name: String,
        rust_type: String,
        value: String,
    },
}

/// Items of a source, in order, each with its documentation.
pub(crate) fn items(source: &str) -> Result<Vec<(Vec<String>, Item)>, String> {
    let mut found = Vec::new();
    let mut docs = Vec::new();
    let mut repr = String::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            docs.push(doc.trim_start().to_owned());
        } else if let Some(kind) = line.strip_prefix("#[repr(") {
            repr = kind.trim_end_matches(")]").to_owned();
        } else if !line.starts_with("#[") {
            if let Some(name) = declared(line, "struct").filter(|_| repr == "C") {
                let fields = fields(&name, &mut lines)?;
                found.push((std::mem::take(&mut docs), Item::Struct { name, fields }));
            } else if let Some(name) = declared(line, "enum").filter(|_| repr == "u8") {
                let values = values(&name, &mut lines)?;
                found.push((std::mem::take(&mut docs), Item::Enum { name, values }));
            } else if let Some(item) = constant(line) {
                found.push((std::mem::take(&mut docs), item));
            }
            docs.clear();
            repr.clear();
        }
    }
    Ok(found)
}

/// Name in `pub struct Name {` and the like.
fn declared(line: &str, keyword: &str) -> Option<String> {
    let rest = line
        .strip_prefix("pub(crate) ")
        .or_else(|| line.strip_prefix("pub "))?;
    let name = rest.strip_prefix(keyword)?.trim().strip_suffix('{')?.trim();
    Some(name.to_owned())
}

fn body<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines
        .map(str::trim)
        .take_while(|line| *line != "}")
        .filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with("#["))
        .collect()
}

fn fields<'a>(
    owner: &str,
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, String)>, String> {
    let field = |line: &str| {
        let rest = line
            .strip_prefix("pub(crate) ")
            .or_else(|| line.strip_prefix("pub "));
        let (name, rust_type) = rest?.strip_suffix(',')?.split_once(": ")?;
        Some((name.to_owned(), rust_type.to_owned()))
    };
    let read = |line| field(line).ok_or_else(|| format!("{owner}: {line:?} is no field"));
    body(lines).into_iter().map(read).collect()
}

fn values<'a>(
    owner: &str,
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<Vec<(String, u64)>, String> {
    let mut next = 0;
    let mut value = |line: &str| {
        let line = line.strip_suffix(',').unwrap_or(line);
        let (name, number) = match line.split_once(" = ") {
            Some((name, number)) => (name, number.parse().ok()?),
            None => (line, next),
        };
        next = number + 1;
        Some((name.to_owned(), number))
    };
    let read = |line| value(line).ok_or_else(|| format!("{owner}: {line:?} is no value"));
    body(lines).into_iter().map(read).collect()
}

/// `pub const NAME: u32 = literal;`. Other constants stay in Rust.
fn constant(line: &str) -> Option<Item> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
    let (rust_type, value) = rest.strip_suffix(';')?.split_once(" = ")?;
    let digits = value.replace('_', "");
    let literal = match digits.strip_prefix("0x") {
        Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => digits.chars().all(|c| c.is_ascii_digit()),
    };
    literal.then(|| Item::Const {
        name: name.to_owned(),
        rust_type: rust_type.to_owned(),
        value: digits,
    })
}
