//! Huge pages: fewer walks through page tables while weights stream by.
//!
//! It is advice. A system that does not take it leaves pages as they are, and nothing else changes.

/// Moves bytes that are there already to huge pages, as far as they fill some.
pub(crate) fn collapse(bytes: &[u8]) {
    #[cfg(target_os = "linux")]
    {
        const HUGE_PAGE: usize = 2 << 20;
        let skipped = bytes.as_ptr().align_offset(HUGE_PAGE);
        let Some(inner) = bytes.get(skipped..) else {
            return;
        };
        let inner = &inner[..inner.len() / HUGE_PAGE * HUGE_PAGE];
        if inner.is_empty() {
            return;
        }
        let start = inner.as_ptr().cast_mut().cast();
        // SAFETY: the range lies in memory that is borrowed, and the call changes where its bytes lie, not what
        // they are.
        let status = unsafe { libc::madvise(start, inner.len(), libc::MADV_COLLAPSE) };
        if status != 0 {
            let error = std::io::Error::last_os_error();
            tracing::debug!(%error, "no huge pages for imported memory");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_what_they_are() {
        for len in [0, 1, 4096, (2 << 20) - 1, 5 << 20] {
            let bytes: Vec<u8> = (0..len).map(|i: usize| (i % 251) as u8).collect();
            for skip in [0, 1, 4096] {
                collapse(bytes.get(skip..).unwrap_or_default());
            }
            assert!(bytes.iter().enumerate().all(|(i, &b)| b == (i % 251) as u8));
        }
    }
}
