//! What a device offers. Descriptions are data ([`Soc::named`] reads `socs.toml`), not code.

use serde::{Deserialize, Serialize};

/// Nanoseconds of a tick of the system counter, which all cores and ranks of a machine share: 50 MHz.
pub const TICK_NANOSECONDS: u64 = 20;

/// Cores, memories and clock of one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Soc {
    /// Name as the runtime reports it, or `host`.
    pub name: String,
    /// Matrix cores. 0 means: as many as the machine has processors.
    pub num_aic: u32,
    /// Vector cores that belong to each matrix core.
    pub aiv_per_aic: u32,
    /// Unified buffer of a vector core, bytes.
    pub ub_bytes: u64,
    /// L1 of a matrix core, bytes.
    pub l1_bytes: u64,
    /// L0A, and likewise L0B, of a matrix core, bytes.
    pub l0ab_bytes: u64,
    /// L0C (accumulators) of a matrix core, bytes.
    pub l0c_bytes: u64,
    /// Fixpipe buffer (per-column scales) of a matrix core, bytes.
    pub fixpipe_bytes: u64,
    /// Bias buffer of a matrix core, bytes.
    pub bias_bytes: u64,
}

/// No description of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no SoC is named {name:?}; known are {known}")]
pub struct UnknownSoc {
    /// The name asked for.
    pub name: String,
    /// The names there are, comma-separated.
    pub known: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SocFile {
    soc: Vec<Soc>,
}

impl Soc {
    /// All descriptions.
    ///
    /// # Panics
    /// Never in a released build: the embedded file is parsed by a test.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let file: SocFile = toml::from_str(include_str!("../socs.toml")).expect("socs.toml parses");
        file.soc
    }

    /// The description called `name`, without regard to case.
    ///
    /// # Errors
    /// [`UnknownSoc`] lists the names there are.
    pub fn named(name: &str) -> Result<Self, UnknownSoc> {
        let all = Self::all();
        let known = all
            .iter()
            .map(|soc| soc.name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        all.into_iter()
            .find(|soc| soc.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| UnknownSoc {
                name: name.to_owned(),
                known,
            })
    }

    /// The description with its number of cores: of this machine, where it says as many as there are.
    #[must_use]
    pub fn on_this_machine(mut self) -> Self {
        if self.num_aic == 0 {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            self.num_aic = u32::try_from(processors).unwrap_or(u32::MAX);
        }
        self
    }

    /// Vector cores of the device.
    #[must_use]
    pub fn num_aiv(&self) -> u32 {
        self.num_aic * self.aiv_per_aic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_has_cores_and_memories() {
        for soc in Soc::all() {
            assert!(
                soc.aiv_per_aic > 0 && soc.ub_bytes > 0 && soc.l1_bytes > 0,
                "{soc:?}"
            );
            assert!(soc.num_aic > 0 || soc.name == "host", "{soc:?}");
            assert_eq!(Soc::named(&soc.name.to_uppercase()), Ok(soc.clone()));
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = Soc::named("910Z").unwrap_err().to_string();
        assert!(
            error.contains("910Z") && error.contains("Ascend910B1"),
            "{error}"
        );
    }
}
