//! Starts the ranks of a world, collects what they return, and ends all of them when one fails.
//!
//! | how | who calls |
//! |---|---|
//! | threads of this process | [`World::run_threads`] |
//! | processes of this executable | the parent [`World::run_processes`], each child [`Member::from_env`] |
//! | processes that `mpirun` started | each [`Member::from_env`] as well |

mod join;
mod processes;
mod threads;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::control::Control;
use crate::layout::WindowLayout;
use crate::segment::Segment;
use crate::wait::DEFAULT_DEADLINE;

pub use join::{Joined, Member, Origin};
pub use processes::RankCommand;

/// What a rank's work may fail with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A world that did not end well.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// Memory for the windows, a process or a connection can't be had.
    #[error("{what}: {source}")]
    Setup {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A rank failed. The others were told and have ended.
    #[error("rank {rank} failed: {reason}{}", because(.others))]
    RankFailed {
        /// The first rank that failed.
        rank: u32,
        /// Why.
        reason: String,
        /// The other ranks that ended with an error, and what they say.
        others: Vec<(u32, String)>,
    },
    /// The environment names a world, but not rightly.
    #[error("{variable} is {value:?}, but {rule}")]
    Environment {
        /// Which variable.
        variable: String,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// Ranks did not join in time.
    #[error("rank {rank} waited {waited:?} for {missing} to join the world at {place}")]
    NotJoined {
        /// Who waited.
        rank: u32,
        /// How long.
        waited: Duration,
        /// Who is missing.
        missing: String,
        /// The rendezvous.
        place: String,
    },
    /// A world of another size than the problem.
    #[error("the world has {got} ranks, but the problem has {want}")]
    Size {
        /// Ranks that were started.
        got: u32,
        /// Ranks of the problem.
        want: u32,
    },
}

fn because(others: &[(u32, String)]) -> String {
    match others {
        [] => String::new(),
        [(rank, _)] => format!(" (rank {rank} ended because of it)"),
        more => format!(" ({} other ranks ended because of it)", more.len()),
    }
}

fn setup(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> WorldError {
    let what = what.into();
    move |source| WorldError::Setup { what, source }
}

/// A set of ranks that share windows of one layout.
#[derive(Clone, Debug)]
pub struct World {
    layout: WindowLayout,
    deadline: Duration,
}

impl World {
    /// A world whose windows have this layout.
    #[must_use]
    pub fn new(layout: WindowLayout) -> Self {
        Self {
            layout,
            deadline: DEFAULT_DEADLINE,
        }
    }

    /// Limits every wait of a rank.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    fn segment(&self) -> Result<Arc<Segment>, WorldError> {
        let (ranks, bytes) = (self.layout.num_ranks(), self.layout.required_bytes());
        let segment = Segment::create(ranks, bytes).map_err(setup(format!(
            "memory for {ranks} windows of {bytes} bytes"
        )))?;
        Ok(Arc::new(segment))
    }
}

/// Sorts what ranks returned into results, or into one error that names the first rank that failed.
fn settle<T>(control: &Control, results: Vec<Result<T, String>>) -> Result<Vec<T>, WorldError> {
    let mut values = Vec::with_capacity(results.len());
    let mut errors = Vec::new();
    for (rank, result) in (0..).zip(results) {
        match result {
            Ok(value) => values.push(value),
            Err(reason) => errors.push((rank, reason)),
        }
    }
    if errors.is_empty() {
        return Ok(values);
    }
    let first = control.first_failure().map(|failure| failure.rank);
    let place = errors
        .iter()
        .position(|(rank, _)| Some(*rank) == first)
        .unwrap_or(0);
    let (rank, reason) = errors.remove(place);
    Err(WorldError::RankFailed {
        rank,
        reason,
        others: errors,
    })
}
