//! Memory of the program itself: constants that a kernel's code brings along.

use std::ops::Range;

/// Mapped files of this process: its executable and libraries.
#[derive(Debug, Default)]
pub(crate) struct Images(Vec<Range<u64>>);

impl Images {
    /// Whether an address is in one of them; looks anew before it says no.
    pub(crate) fn hold(&mut self, address: u64) -> bool {
        let holds = |images: &[Range<u64>]| images.iter().any(|image| image.contains(&address));
        if !holds(&self.0) {
            self.0 = mapped_files();
        }
        holds(&self.0)
    }
}

fn mapped_files() -> Vec<Range<u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().filter_map(mapped_file).collect()
}

/// A line of the maps: addresses first, the file last. Windows are files too, but not of the program.
fn mapped_file(line: &str) -> Option<Range<u64>> {
    let (addresses, rest) = line.split_once(' ')?;
    let path = rest.split_once('/').map(|(_, path)| path)?;
    if path.starts_with("memfd:") || path.starts_with("dev/") {
        return None;
    }
    let (start, end) = addresses.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_in_the_program_and_buffers_are_not() {
        static CONSTANT: [u8; 4] = [1, 2, 3, 4];
        let buffer = vec![0u8; 1 << 20];
        let mut images = Images::default();
        assert!(images.hold(CONSTANT.as_ptr() as u64));
        assert!(!images.hold(buffer.as_ptr() as u64));
    }
}
