//! How many cores a stage takes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::tiling::CoreGroup;
use super::{ScheduleError, choice};

/// A number of cores, absolute or of those that a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cores {
    /// Every one.
    #[default]
    All,
    /// So many.
    Count(u32),
    /// This part of them, to the nearest number, at least one.
    Share {
        /// Numerator.
        part: u32,
        /// Denominator.
        of: u32,
    },
}

impl Cores {
    /// The group behind `first`, out of `total` cores.
    pub(super) fn group(
        self,
        name: &'static str,
        first: u32,
        total: u32,
        kind: &str,
    ) -> Result<CoreGroup, ScheduleError> {
        let num = match self {
            Self::All => total,
            Self::Count(count) => count,
            Self::Share { part, of } => {
                let share = u64::from(total) * u64::from(part) + u64::from(of) / 2;
                u32::try_from(share / u64::from(of)).unwrap_or(total).max(1)
            }
        };
        if num == 0 || num > total {
            let rule = format!("the device has 1 to {total} {kind} cores to give");
            return Err(choice(name, num, rule));
        }
        Ok(CoreGroup {
            first: first % total,
            num,
        })
    }

    fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::All);
        }
        let (part, of) = text.split_once('/')?;
        let (part, of) = (part.trim().parse().ok()?, of.trim().parse().ok()?);
        (0 < part && part <= of).then_some(Self::Share { part, of })
    }
}

impl std::fmt::Display for Cores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Share { part, of } => write!(f, "{part}/{of}"),
        }
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u32(*count),
            other => serializer.collect_str(other),
        }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "cores must be a number, a share such as \"2/3\", or \"all\""
        )]
        enum Value {
            Count(u32),
            Text(String),
        }
        match Value::deserialize(deserializer)? {
            Value::Count(count) => Ok(Self::Count(count)),
            Value::Text(text) => Self::parse(&text).ok_or_else(|| {
                de::Error::custom(format!(
                    "cores is {text:?}, but must be a number, a share from \"1/n\" to \"n/n\", or \"all\""
                ))
            }),
        }
    }
}
