//! Where in the kernels instructions are.

use std::collections::HashMap;

/// An instruction at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Site {
    /// Name of the instruction.
    pub(crate) name: &'static str,
    /// Address of the code behind the call.
    pub(crate) return_address: u64,
}

/// All that were met, numbered.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    numbers: HashMap<Site, u32>,
    sites: Vec<Site>,
}

impl Sites {
    pub(crate) fn number(&mut self, site: Site) -> u32 {
        let next = self.sites.len() as u32;
        let sites = &mut self.sites;
        *self.numbers.entry(site).or_insert_with(|| {
            sites.push(site);
            next
        })
    }

    pub(crate) fn get(&self, number: u32) -> Site {
        self.sites[number as usize]
    }
}

/// Stands for the place of a call until somebody has time to look it up.
pub(crate) fn unresolved(return_address: u64) -> String {
    format!("{MARK}{return_address:x}")
}

const MARK: char = '@';

/// The place that such a text stands for. Takes more stack than a core has.
pub(crate) fn resolve(place: &mut String) {
    let address = place
        .strip_prefix(MARK)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    if let Some(address) = address {
        *place = place_of(address);
    }
}

/// File and line of a call in a kernel: of the innermost function that is not one of the tile API's headers.
fn place_of(return_address: u64) -> String {
    let mut places = Vec::new();
    // One byte back is inside the call.
    let inside = return_address.wrapping_sub(1) as *mut std::ffi::c_void;
    backtrace::resolve(inside, |symbol| {
        if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
            places.push((file.to_owned(), line));
        }
    });
    let is_header =
        |file: &std::path::Path| file.components().any(|part| part.as_os_str() == "pto");
    let own = places.iter().find(|(file, _)| !is_header(file));
    match own.or(places.first()) {
        Some((file, line)) => {
            let parts: Vec<_> = file.components().rev().take(3).collect();
            let short: std::path::PathBuf = parts.into_iter().rev().collect();
            format!("{}:{line}", short.display())
        }
        None => "an unknown place".to_owned(),
    }
}
