//! Count-as-flag and signals, over plain atomic words so that loom can check the same code.
//!
//! A row of counts is made of lines of [`LINE_WORDS`] words: counts, then one flag word that holds the
//! epoch of the launch that wrote the line. Payload first, flag last with release; flag first with
//! acquire, payload after (rules 1 and 2). A flag of another launch is no flag (rule 4).

use moe_core::limits::COUNT_MARKER;

use crate::layout::{COUNTS_PER_LINE, LINE_WORDS};
use crate::sync::{AtomicU32, Ordering};

/// How a signal is compared with the value wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Equal.
    Equal,
    /// Greater or equal, signed.
    AtLeast,
}

impl Compare {
    /// Whether `seen` satisfies the wish for `want`.
    #[must_use]
    pub fn holds(self, seen: i32, want: i32) -> bool {
        match self {
            Self::Equal => seen == want,
            Self::AtLeast => seen >= want,
        }
    }

    /// The operator as text.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::AtLeast => ">=",
        }
    }
}

/// Words of the flags in a row of counts: one at the end of each line.
pub fn flags(row: &[AtomicU32]) -> impl Iterator<Item = &AtomicU32> {
    row.chunks(LINE_WORDS as usize)
        .map(|line| &line[line.len() - 1])
}

/// Writes counts into a row and flags every line with `epoch`. Counts carry
/// [`COUNT_MARKER`], zero ones too, so that a zeroed word is never mistaken for a count.
///
/// # Panics
/// When the row has fewer lines than the counts need.
pub fn publish_counts(row: &[AtomicU32], counts: &[u32], epoch: i32) {
    let lines = row.chunks(LINE_WORDS as usize);
    let pieces = counts.chunks(COUNTS_PER_LINE as usize);
    assert!(lines.len() >= pieces.len(), "a row holds all counts");
    for (line, counts) in lines.zip(pieces) {
        for (word, count) in line.iter().zip(counts) {
            word.store(count + COUNT_MARKER as u32, Ordering::Relaxed);
        }
        line[line.len() - 1].store(epoch as u32, Ordering::Release);
    }
}

/// Takes counts out of a row whose flags all carry this launch's epoch; [`None`] while one does not.
pub fn take_counts(row: &[AtomicU32], num_counts: usize, epoch: i32) -> Option<Vec<u32>> {
    if !flags(row).all(|flag| flag.load(Ordering::Acquire) == epoch as u32) {
        return None;
    }
    let words = row
        .chunks(LINE_WORDS as usize)
        .flat_map(|line| &line[..line.len() - 1]);
    let counts = words.take(num_counts).map(|word| {
        word.load(Ordering::Relaxed)
            .wrapping_sub(COUNT_MARKER as u32)
    });
    Some(counts.collect())
}

/// Sets a signal: everything this rank wrote before is visible to who sees the value.
pub fn notify_set(signal: &AtomicU32, value: i32) {
    signal.store(value as u32, Ordering::Release);
}

/// Adds to a signal, likewise.
pub fn notify_add(signal: &AtomicU32, value: i32) {
    signal.fetch_add(value as u32, Ordering::AcqRel);
}

/// Reads a signal: who sees the value wanted, sees everything written before it was set.
pub fn read_signal(signal: &AtomicU32) -> i32 {
    signal.load(Ordering::Acquire) as i32
}
