//! Schedules of the fused kernel: which cores take which stage of which expert, and in which order. Data,
//! read from TOML; device code follows it (`kernel/schedule.h`).
//!
//! ```toml
//! experts_per_wave = 4       # experts that are taken together [default: all of a rank]
//!
//! [gmm1]
//! cores = "2/3"              # matrix cores: a number, a share, or "all" [default]
//! all_cores_experts = 2      # first experts that all matrix cores share [default: 0]
//!
//! [gmm2]
//! cores = "1/3"
//! join_from = 0              # expert from which on cores of GMM1 may help, once theirs is over [default: never]
//!
//! [dispatch]
//! cores = "1/3"              # vector cores
//!
//! [swiglu]
//! cores = 16
//!
//! [combine]
//! cores = "1/3"
//! start_after = 3            # local expert whose GMM2 is over before the first rows return [default: 0]
//! path = "large"             # whole rows; "small": blocks for few rows; "auto" [default]
//!
//! [unpermute]
//! early_percent = 30         # tokens that cores outside of Combine's group sum first [default: 0]
//! start_after = 12           # local expert whose rows have left before they do [default: 0]
//! ```
//!
//! Groups lie one behind the other: GMM2's matrix cores follow GMM1's, and the vector cores of the activation and
//! of Combine those of Dispatch; after the last core comes the first. Experts that a rank does not have count for
//! none or the last.
//!
//! | preset | what it is |
//! |---|---|
//! | `seed` | fixed groups, as in the published kernel; the default on an Ascend |
//! | `stages` | all cores take stage after stage, expert by expert |
//! | `waves` | all cores, in waves of few experts; the default on `host` |

mod cores;
pub mod tiling;

use std::path::{Path, PathBuf};

use moe_core::Soc;
use serde::{Deserialize, Serialize};

pub use cores::Cores;
use tiling::{CoreGroup, ScheduleTiling};

/// A schedule that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// A choice is illegal, or does not go with another.
    #[error("schedule: {name} is {value}, but {rule}")]
    Choice {
        /// Which choice.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it must satisfy.
        rule: String,
    },
    /// A file is no schedule.
    #[error("{}: {}", path.display(), source.message())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: Box<toml::de::Error>,
    },
    /// Neither a preset nor a file that can be read.
    #[error(
        "{name:?} is no preset ({}) and can't be read as a file: {source}",
        Schedule::PRESETS.map(|(name, _)| name).join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// Why it can't be read.
        source: std::io::Error,
    },
}

fn choice(name: &'static str, value: impl ToString, rule: impl Into<String>) -> ScheduleError {
    ScheduleError::Choice {
        name,
        value: value.to_string(),
        rule: rule.into(),
    }
}

/// Who does what when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// Experts that are taken together; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts_per_wave: Option<u32>,
    /// Matrix cores of GMM1.
    pub gmm1: Gmm1Choice,
    /// Matrix cores of GMM2.
    pub gmm2: Gmm2Choice,
    /// Vector cores of Dispatch.
    pub dispatch: CoresChoice,
    /// Vector cores of the activation.
    pub swiglu: CoresChoice,
    /// Vector cores of Combine.
    pub combine: CombineChoice,
    /// When the first tokens are summed.
    pub unpermute: UnpermuteChoice,
}

/// Cores of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CoresChoice {
    /// How many.
    pub cores: Cores,
}

/// GMM1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gmm1Choice {
    /// How many matrix cores.
    pub cores: Cores,
    /// First experts that all matrix cores share.
    pub all_cores_experts: u32,
}

/// GMM2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gmm2Choice {
    /// How many matrix cores.
    pub cores: Cores,
    /// First local expert that cores of GMM1 may join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join_from: Option<u32>,
}

/// Combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CombineChoice {
    /// How many vector cores.
    pub cores: Cores,
    /// Local expert whose GMM2 is over before the first rows return.
    pub start_after: u32,
    /// How rows are cut.
    pub path: CombinePath,
}

/// How Combine cuts rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CombinePath {
    /// By the number of tokens and cores.
    #[default]
    Auto,
    /// Blocks, so that few rows occupy many cores.
    Small,
    /// Whole rows.
    Large,
}

/// Unpermute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UnpermuteChoice {
    /// Percent of the tokens that cores outside of Combine's group sum first.
    pub early_percent: u32,
    /// Local expert whose rows have left before they do.
    pub start_after: u32,
}

impl Schedule {
    /// Names and texts of the presets.
    pub const PRESETS: [(&'static str, &'static str); 3] = [
        ("seed", include_str!("../../schedules/seed.toml")),
        ("stages", include_str!("../../schedules/stages.toml")),
        ("waves", include_str!("../../schedules/waves.toml")),
    ];

    /// What suits a device when nothing is asked for.
    #[must_use]
    pub fn default_name(soc: &Soc) -> &'static str {
        if soc.name == "host" { "waves" } else { "seed" }
    }

    /// The preset of that name, or the schedule in that file.
    ///
    /// # Errors
    /// [`ScheduleError::Unknown`] when it is neither, [`ScheduleError::Parse`] when the file is wrong.
    pub fn named(name: &str) -> Result<Self, ScheduleError> {
        let preset = Self::PRESETS.into_iter().find(|preset| preset.0 == name);
        let text = match preset {
            Some((_, text)) => text.to_owned(),
            None => std::fs::read_to_string(name).map_err(|source| ScheduleError::Unknown {
                name: name.to_owned(),
                source,
            })?,
        };
        Self::parse(&text, Path::new(name))
    }

    /// The schedule of a text; `path` is where it comes from.
    ///
    /// # Errors
    /// [`ScheduleError::Parse`] names the field.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScheduleError> {
        toml::from_str(text).map_err(|source| ScheduleError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })
    }

    /// The schedule for a device and a number of local experts.
    ///
    /// # Errors
    /// [`ScheduleError::Choice`] names what is wrong.
    pub fn resolve(
        &self,
        soc: &Soc,
        experts_per_rank: u32,
    ) -> Result<ScheduleTiling, ScheduleError> {
        let (num_aic, num_aiv) = (soc.num_aic, soc.num_aiv());
        let matrix = |name, cores: Cores, first| cores.group(name, first, num_aic, "matrix");
        let vector = |name, cores: Cores, first| cores.group(name, first, num_aiv, "vector");
        let gmm1 = matrix("gmm1.cores", self.gmm1.cores, 0)?;
        let dispatch = vector("dispatch.cores", self.dispatch.cores, 0)?;
        let swiglu = vector("swiglu.cores", self.swiglu.cores, dispatch.num)?;
        let combine = vector(
            "combine.cores",
            self.combine.cores,
            swiglu.first + swiglu.num,
        )?;
        let experts_per_wave = self.experts_per_wave.unwrap_or(experts_per_rank);
        if experts_per_wave == 0 {
            return Err(choice("experts_per_wave", 0, "must be at least 1"));
        }
        let last = experts_per_rank - 1;
        let tiling = ScheduleTiling {
            num_aic,
            num_aiv,
            experts_per_rank,
            experts_per_wave: experts_per_wave.min(experts_per_rank),
            gmm1,
            gmm2: matrix("gmm2.cores", self.gmm2.cores, gmm1.num)?,
            dispatch,
            swiglu,
            combine,
            all_cores_experts: self.gmm1.all_cores_experts.min(experts_per_rank),
            join_from: self.join_from(experts_per_rank, num_aic)?,
            combine_start_after: self.combine.start_after.min(last),
            early_percent: self.early_percent(combine, num_aiv)?,
            early_start_after: self.unpermute.start_after.min(last),
            reserved: 0,
        };
        check_combine_start(&tiling)?;
        Ok(tiling)
    }

    fn join_from(&self, experts_per_rank: u32, num_aic: u32) -> Result<u32, ScheduleError> {
        let Some(join_from) = self.gmm2.join_from else {
            return Ok(experts_per_rank);
        };
        // On a device of one core there is nobody else, whatever the share.
        if self.gmm2.cores == Cores::All && num_aic > 1 {
            let rule = "gmm2.cores is \"all\": nobody is left to join";
            return Err(choice("gmm2.join_from", join_from, rule));
        }
        Ok(join_from.min(experts_per_rank))
    }

    fn early_percent(&self, combine: CoreGroup, num_aiv: u32) -> Result<u32, ScheduleError> {
        let percent = self.unpermute.early_percent;
        if percent > 100 {
            return Err(choice(
                "unpermute.early_percent",
                percent,
                "must be at most 100",
            ));
        }
        if percent > 0 && combine.num == num_aiv {
            let rule = "combine.cores takes all vector cores: none is left to be early";
            return Err(choice("unpermute.early_percent", percent, rule));
        }
        Ok(percent)
    }
}

/// A core that takes Combine of wave 0 after Dispatch of wave 2 and the activation of wave 1 would wait for
/// itself if Combine waited for wave 2.
fn check_combine_start(tiling: &ScheduleTiling) -> Result<(), ScheduleError> {
    let shares_cores = [tiling.dispatch, tiling.swiglu]
        .into_iter()
        .any(|group| group.overlaps(tiling.combine, tiling.num_aiv));
    let limit = 2 * u64::from(tiling.experts_per_wave);
    if !shares_cores || u64::from(tiling.combine_start_after) < limit {
        return Ok(());
    }
    let rule = format!(
        "must be below {limit}, two waves of {}: Combine's cores take Dispatch or the activation too",
        tiling.experts_per_wave
    );
    Err(choice(
        "combine.start_after",
        tiling.combine_start_after,
        rule,
    ))
}

#[cfg(test)]
mod tests;
