//! What ranks tell each other about themselves: whether they run, in which launch, and why they failed.

use std::sync::Arc;

use crate::layout::{CONTROL_BYTES, Region, WindowLayout};
use crate::segment::Segment;
use crate::sync::{AtomicU32, Ordering};

const WORD_STATE: usize = 0;
const WORD_PID: usize = 1;
const WORD_SLEEPERS: usize = 2;
const WORD_EPOCH: usize = 3;
/// Only rank 0's is used: one more than the first rank that failed.
const WORD_FIRST_FAILED: usize = 4;
const WORD_TEXT_BYTES: usize = 5;
const TEXT_START: u64 = 64;
/// Behind the text: bytes for another rank.
const MAILBOX_START: u64 = CONTROL_BYTES / 2;
const TEXT_BYTES: usize = (MAILBOX_START - TEXT_START) as usize;
/// Bytes that a mailbox holds.
pub(crate) const MAILBOX_BYTES: usize = (CONTROL_BYTES - MAILBOX_START) as usize;
const NUM_WORDS: usize = 6;

/// Life of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Not there yet.
    Absent,
    /// Takes part.
    Running,
    /// Ended well: it will write nothing more.
    Finished,
    /// Somebody is writing down why it failed.
    Failing,
    /// Ended badly; the reason can be read.
    Failed,
}

impl State {
    const ALL: [Self; 5] = [
        Self::Absent,
        Self::Running,
        Self::Finished,
        Self::Failing,
        Self::Failed,
    ];
}

/// A rank that failed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) rank: u32,
    pub(crate) reason: String,
}

/// The control regions of all windows.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    segment: Arc<Segment>,
    offset: u64,
    num_ranks: u32,
}

impl Control {
    pub(crate) fn new(segment: Arc<Segment>, layout: &WindowLayout) -> Self {
        Self {
            segment,
            offset: layout.extent(Region::Control).offset,
            num_ranks: layout.num_ranks(),
        }
    }

    fn word(&self, rank: u32, word: usize) -> &AtomicU32 {
        &self.segment.words(rank, self.offset, NUM_WORDS)[word]
    }

    pub(crate) fn arrive(&self, rank: u32) {
        self.word(rank, WORD_PID)
            .store(std::process::id(), Ordering::Relaxed);
        self.word(rank, WORD_STATE)
            .store(State::Running as u32, Ordering::Release);
    }

    /// Marks a good end, unless somebody has found the rank failed.
    pub(crate) fn finish(&self, rank: u32) {
        self.change(rank, State::Running, State::Finished);
    }

    fn change(&self, rank: u32, from: State, to: State) -> bool {
        self.word(rank, WORD_STATE)
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    pub(crate) fn state(&self, rank: u32) -> State {
        let state = self.word(rank, WORD_STATE).load(Ordering::Acquire);
        State::ALL
            .get(state as usize)
            .copied()
            .unwrap_or(State::Failed)
    }

    pub(crate) fn pid(&self, rank: u32) -> u32 {
        self.word(rank, WORD_PID).load(Ordering::Relaxed)
    }

    /// Ranks asleep on words of this rank's window.
    pub(crate) fn sleepers(&self, rank: u32) -> &AtomicU32 {
        self.word(rank, WORD_SLEEPERS)
    }

    pub(crate) fn set_epoch(&self, rank: u32, epoch: i32) {
        self.word(rank, WORD_EPOCH)
            .store(epoch as u32, Ordering::Relaxed);
    }

    pub(crate) fn epoch(&self, rank: u32) -> i32 {
        self.word(rank, WORD_EPOCH).load(Ordering::Relaxed) as i32
    }

    /// Puts bytes into a rank's mailbox. Ordering with who takes them is a barrier's matter.
    pub(crate) fn post(&self, rank: u32, bytes: &[u8]) {
        self.segment.write(rank, self.offset + MAILBOX_START, bytes);
    }

    /// Copies bytes out of a rank's mailbox, likewise.
    pub(crate) fn collect(&self, rank: u32, bytes: &mut [u8]) {
        self.segment.read(rank, self.offset + MAILBOX_START, bytes);
    }

    /// Writes down that a rank failed; the first reason stands.
    pub(crate) fn fail(&self, rank: u32, reason: &str) {
        let unclaimed = self.change(rank, State::Running, State::Failing)
            || self.change(rank, State::Absent, State::Failing);
        if !unclaimed {
            return;
        }
        let mut end = reason.len().min(TEXT_BYTES);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        self.segment
            .write(rank, self.offset + TEXT_START, &reason.as_bytes()[..end]);
        self.word(rank, WORD_TEXT_BYTES)
            .store(end as u32, Ordering::Relaxed);
        self.word(rank, WORD_STATE)
            .store(State::Failed as u32, Ordering::Release);
        let first = self.word(0, WORD_FIRST_FAILED);
        // Only the first failure is recorded; losing the race is fine.
        let _ = first.compare_exchange(0, rank + 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The first rank that failed.
    pub(crate) fn first_failure(&self) -> Option<Failure> {
        let rank = self
            .word(0, WORD_FIRST_FAILED)
            .load(Ordering::Acquire)
            .checked_sub(1)?;
        (rank < self.num_ranks).then(|| Failure {
            rank,
            reason: self.reason(rank),
        })
    }

    fn reason(&self, rank: u32) -> String {
        let bytes = self.word(rank, WORD_TEXT_BYTES).load(Ordering::Relaxed);
        let mut text = vec![0; (bytes as usize).min(TEXT_BYTES)];
        self.segment.read(rank, self.offset + TEXT_START, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}
