//! Waiting for a word: spin briefly, then sleep in the kernel; always with a deadline, always with an
//! eye on the peer that should write it.

use std::time::{Duration, Instant};

use rustix::thread::futex;

use crate::control::{Control, State};
use crate::layout::Region;
use crate::protocol::{Compare, read_signal};
use crate::sync::{AtomicU32, Ordering};

/// How long a wait lasts unless another deadline is set.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
/// Longest sleep before looking whether the peer still lives.
const SLICE: Duration = Duration::from_millis(20);
/// Looks before the first sleep: about a microsecond, less than going to sleep costs.
const SPINS: u32 = 200;

/// A word that a peer writes, and the value that ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The rank that waits.
    pub rank: u32,
    /// The rank that should write the word.
    pub peer: u32,
    /// Region of the waiting rank's window.
    pub region: Region,
    /// Item in the region.
    pub index: u64,
    /// How values are compared.
    pub compare: Compare,
    /// The value wanted.
    pub want: i32,
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            rank,
            peer,
            region,
            index,
            compare,
            want,
        } = self;
        write!(
            f,
            "rank {rank} waits for rank {peer} at {}[{index}] {} {want}",
            region.name(),
            compare.symbol()
        )
    }
}

/// A wait that did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The value did not come in time.
    #[error("{awaited}: saw {saw} for {waited:.1?}{}", if *.absent { ", and the peer never arrived" } else { "" })]
    Deadline {
        /// What was waited for.
        awaited: Awaited,
        /// The value seen last.
        saw: i32,
        /// How long.
        waited: Duration,
        /// The peer has not even joined the world.
        absent: bool,
    },
    /// A rank of the world failed.
    #[error("{awaited}: saw {saw}, and rank {failed} failed: {reason}")]
    RankFailed {
        /// What was waited for.
        awaited: Awaited,
        /// The value seen last.
        saw: i32,
        /// The rank that failed, not always the peer.
        failed: u32,
        /// Why it failed.
        reason: String,
    },
    /// The peer ended without writing the value.
    #[error("{awaited}: saw {saw}, and the peer has ended after launch {peer_epoch}")]
    PeerEnded {
        /// What was waited for.
        awaited: Awaited,
        /// The value seen last.
        saw: i32,
        /// The last launch that the peer took part in.
        peer_epoch: i32,
    },
}

/// Waits until `word` has the value wanted.
pub(crate) fn wait(
    control: &Control,
    word: &AtomicU32,
    awaited: Awaited,
    deadline: Duration,
) -> Result<i32, WaitError> {
    let done = |seen: i32| awaited.compare.holds(seen, awaited.want);
    for _ in 0..SPINS {
        let seen = read_signal(word);
        if done(seen) {
            return Ok(seen);
        }
        std::hint::spin_loop();
    }
    let start = Instant::now();
    loop {
        // Read before the word: a peer that wrote the word and then ended is not at fault.
        let (peer, failure) = (control.state(awaited.peer), control.first_failure());
        let saw = read_signal(word);
        if done(saw) {
            return Ok(saw);
        }
        if let Some(failure) = failure {
            return Err(WaitError::RankFailed {
                awaited,
                saw,
                failed: failure.rank,
                reason: failure.reason,
            });
        }
        if peer == State::Finished {
            let peer_epoch = control.epoch(awaited.peer);
            return Err(WaitError::PeerEnded {
                awaited,
                saw,
                peer_epoch,
            });
        }
        let waited = start.elapsed();
        let Some(left) = deadline.checked_sub(waited).filter(|left| !left.is_zero()) else {
            let absent = peer == State::Absent;
            return Err(WaitError::Deadline {
                awaited,
                saw,
                waited,
                absent,
            });
        };
        sleep(control.sleepers(awaited.rank), word, saw, left.min(SLICE));
    }
}

/// Sleeps while `word` holds `seen`, at most for `time`.
fn sleep(sleepers: &AtomicU32, word: &AtomicU32, seen: i32, time: Duration) {
    // The writer stores the word, then reads `sleepers`; this side does both the other way round. In
    // a total order of sequentially consistent operations one of them sees the other.
    sleepers.fetch_add(1, Ordering::SeqCst);
    std::sync::atomic::fence(Ordering::SeqCst);
    let time = rustix::time::Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    };
    // Woken, timed out, interrupted or changed already: the caller looks at the word in every case.
    let _ = futex::wait(word, futex::Flags::empty(), seen as u32, Some(&time));
    sleepers.fetch_sub(1, Ordering::SeqCst);
}

/// Wakes who sleeps on `word`, a word of the window whose sleepers are counted in `sleepers`.
pub(crate) fn wake(sleepers: &AtomicU32, word: &AtomicU32) {
    std::sync::atomic::fence(Ordering::SeqCst);
    if sleepers.load(Ordering::SeqCst) > 0 {
        // Nothing to do about an error: the sleeper looks again by itself within a slice.
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }
}
