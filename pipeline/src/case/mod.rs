//! Case directories: a description and one file per rank and array.
//!
//! Two descriptions are read: `case.json`, the published format, byte for byte; and `case.toml`, our own,
//! which can also state types, uneven token counts, generated data and a tolerance. The array files are
//! the same for both ([`files`]).

mod description;
pub mod files;
mod published;

use std::path::{Path, PathBuf};

use moe_core::routing::RoutingError;
use moe_core::{InputError, Problem, ProblemError, RankInputs};

pub use description::{DataSource, Description};
pub use published::PublishedCase;

use crate::generate::{generate, generate_rank};
use crate::verify::Tolerance;

/// A case that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A file or folder can't be opened, read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Neither description is there.
    #[error("{}: no case.json and no case.toml in this folder", dir.display())]
    NoDescription {
        /// The folder.
        dir: PathBuf,
    },
    /// A folder already describes another case.
    #[error("{}: holds another case; name a new folder", dir.display())]
    OtherCase {
        /// The folder.
        dir: PathBuf,
    },
    /// A description can't be parsed: a syntax error, an unknown or a missing field.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// What the parser says, with the field's name.
        reason: String,
    },
    /// A field holds a value that is not supported.
    #[error("{}: {field} is {value}, but {rule}", path.display())]
    Field {
        /// Which file.
        path: PathBuf,
        /// Which field.
        field: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// An array file is shorter or longer than the sizes say.
    #[error("{}: has {got} bytes, but the sizes of the case need {want}", path.display())]
    FileSize {
        /// Which file.
        path: PathBuf,
        /// Bytes it has.
        got: u64,
        /// Bytes needed.
        want: u64,
    },
    /// The sizes are illegal.
    #[error("{}: {source}", path.display())]
    Problem {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: ProblemError,
    },
    /// The inputs are illegal.
    #[error("{}: {source}", dir.display())]
    Input {
        /// The folder.
        dir: PathBuf,
        /// What is wrong.
        source: InputError,
    },
    /// The routing of generated data can't be made, or is illegal.
    #[error(transparent)]
    Routing(#[from] RoutingError),
}

impl CaseError {
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// A case with its inputs.
#[derive(Clone, Debug)]
pub struct Case {
    /// Checked sizes.
    pub problem: Problem,
    /// One entry per rank, checked.
    pub inputs: Vec<RankInputs>,
    /// Wanted outputs of every rank, if the folder has them.
    pub expected: Option<Vec<Vec<u16>>>,
    /// What an output must reach against `expected`.
    pub tolerance: Tolerance,
}

impl Case {
    /// Reads the folder `dir`. `progress` is told of every matrix that is generated.
    ///
    /// # Errors
    /// [`CaseError`] names the file, what it holds and what it should hold.
    pub fn read(dir: &Path, progress: &(dyn Fn() + Sync)) -> Result<Self, CaseError> {
        let description = Description::read(dir)?;
        let problem = description.problem(dir)?;
        let inputs = match &description.data {
            DataSource::Files => files::read_inputs(dir, &problem)?,
            DataSource::Generated(spec) => generate(&problem, spec, progress)?,
        };
        for (rank, rank_inputs) in (0..).zip(&inputs) {
            check(dir, &problem, rank, rank_inputs)?;
        }
        let expected = files::read_outputs(dir, &problem, files::EXPECTED_OUT)?;
        Ok(Self {
            problem,
            inputs,
            expected,
            tolerance: description.tolerance,
        })
    }

    /// Sizes of the case in `dir`, and the inputs of one rank only.
    ///
    /// # Errors
    /// As for [`Case::read`].
    pub fn read_rank(dir: &Path, rank: u32) -> Result<(Problem, RankInputs), CaseError> {
        let description = Description::read(dir)?;
        let problem = description.problem(dir)?;
        let inputs = match &description.data {
            DataSource::Files => files::read_rank(dir, &problem, rank)?,
            DataSource::Generated(spec) => generate_rank(&problem, spec, rank, &|| ())?,
        };
        check(dir, &problem, rank, &inputs)?;
        Ok((problem, inputs))
    }
}

fn check(dir: &Path, problem: &Problem, rank: u32, inputs: &RankInputs) -> Result<(), CaseError> {
    inputs
        .check(problem, rank)
        .map_err(|source| CaseError::Input {
            dir: dir.to_owned(),
            source,
        })
}
