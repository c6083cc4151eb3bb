//! What a case folder says of itself, in either format.

use std::path::Path;

use moe_core::data::DataKind;
use moe_core::{Problem, ProblemSpec};
use serde::{Deserialize, Serialize};

use super::{CaseError, PublishedCase};
use crate::generate::{DataSpec, RoutingSource};
use crate::verify::Tolerance;

const JSON: &str = "case.json";
const TOML: &str = "case.toml";

/// Where the inputs come from.
#[derive(Clone, Debug, PartialEq)]
pub enum DataSource {
    /// Files beside the description.
    Files,
    /// They are made when the case is read.
    Generated(DataSpec),
}

/// A case's description.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Sizes, not yet checked.
    pub spec: ProblemSpec,
    /// Where the inputs come from.
    pub data: DataSource,
    /// What an output must reach against the expected one.
    pub tolerance: Tolerance,
}

/// `case.toml`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlCase {
    problem: ProblemSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<TomlData>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tolerance: Option<Tolerance>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlData {
    kind: DataKind,
    routing: String,
    seed: u64,
}

impl Description {
    /// Reads `case.json` or else `case.toml` of `dir`.
    ///
    /// # Errors
    /// [`CaseError`] names the file and the field.
    pub fn read(dir: &Path) -> Result<Self, CaseError> {
        let read = |name: &str| {
            let path = dir.join(name);
            match std::fs::read_to_string(&path) {
                Ok(text) => Ok(Some((path, text))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && dir.is_dir() => {
                    Ok(None)
                }
                Err(error) => Err(CaseError::io(&path, error)),
            }
        };
        if let Some((path, text)) = read(JSON)? {
            let case = PublishedCase::parse(&path, &text)?;
            let (spec, tolerance) = (case.spec(&path)?, Tolerance::PUBLISHED);
            return Ok(Self {
                spec,
                data: DataSource::Files,
                tolerance,
            });
        }
        match read(TOML)? {
            Some((path, text)) => Self::parse_toml(&path, &text),
            None => Err(CaseError::NoDescription {
                dir: dir.to_owned(),
            }),
        }
    }

    fn parse_toml(path: &Path, text: &str) -> Result<Self, CaseError> {
        let syntax = |reason: String| CaseError::Syntax {
            path: path.to_owned(),
            reason,
        };
        let case: TomlCase = toml::from_str(text)
            .map_err(|error| syntax(error.to_string().trim_end().to_owned()))?;
        let data = match case.data {
            None => DataSource::Files,
            Some(data) => {
                let routing: RoutingSource = data
                    .routing
                    .parse()
                    .map_err(|error| syntax(format!("data.routing: {error}")))?;
                DataSource::Generated(DataSpec {
                    kind: data.kind,
                    routing,
                    seed: data.seed,
                })
            }
        };
        let tolerance = case.tolerance.unwrap_or(Tolerance::PUBLISHED);
        Ok(Self {
            spec: case.problem,
            data,
            tolerance,
        })
    }

    /// The checked sizes of the case in `dir`.
    ///
    /// # Errors
    /// [`CaseError::Problem`] names what is wrong.
    pub fn problem(&self, dir: &Path) -> Result<Problem, CaseError> {
        self.spec
            .clone()
            .build()
            .map_err(|source| CaseError::Problem {
                path: dir.to_owned(),
                source,
            })
    }

    /// Writes the description to `dir`: `case.json` where the published format can say it, else
    /// `case.toml`.
    ///
    /// # Errors
    /// [`CaseError::Io`] when the file can't be written.
    pub fn write(&self, dir: &Path) -> Result<(), CaseError> {
        let published = PublishedCase::for_problem(&self.spec).filter(|_| self.is_published());
        let (name, text) = match published {
            Some(case) => (JSON, case.to_text().map_err(|error| error.to_string())),
            None => (
                TOML,
                toml::to_string(&self.toml()).map_err(|error| error.to_string()),
            ),
        };
        let path = dir.join(name);
        let text = text.map_err(|reason| CaseError::Syntax {
            path: path.clone(),
            reason,
        })?;
        std::fs::write(&path, text).map_err(|error| CaseError::io(&path, error))
    }

    /// As [`Self::write`], but never over or beside the description of another case.
    ///
    /// # Errors
    /// [`CaseError::OtherCase`] when `dir` already has a description that says something else.
    pub fn write_new(&self, dir: &Path) -> Result<(), CaseError> {
        match Self::read(dir) {
            Ok(other) if other == *self => Ok(()),
            Err(CaseError::NoDescription { .. }) => self.write(dir),
            _ => Err(CaseError::OtherCase {
                dir: dir.to_owned(),
            }),
        }
    }

    fn is_published(&self) -> bool {
        self.data == DataSource::Files && self.tolerance == Tolerance::PUBLISHED
    }

    fn toml(&self) -> TomlCase {
        let data = match &self.data {
            DataSource::Files => None,
            DataSource::Generated(spec) => Some(TomlData {
                kind: spec.kind,
                routing: spec.routing.to_string(),
                seed: spec.seed,
            }),
        };
        TomlCase {
            problem: self.spec.clone(),
            data,
            tolerance: Some(self.tolerance),
        }
    }
}
