//! What checked mode reports.

use std::fmt;

use serde::Serialize;

/// The four checks, by the names that the field gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Bounds, alignment, overlap, leaks, whose window.
    Memcheck,
    /// Accesses without order.
    Racecheck,
    /// Reads of what nobody wrote in this launch.
    Initcheck,
    /// Flags and barriers themselves.
    Synccheck,
}

/// One side of a finding: an instruction of a core.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Party {
    /// The core's rank.
    pub rank: u32,
    /// The core.
    pub core: String,
    /// The pipe.
    pub pipe: &'static str,
    /// The instruction.
    pub instruction: &'static str,
    /// File and line in the kernel's source, where that is known.
    pub place: String,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rank,
            core,
            pipe,
            instruction,
            place,
        } = self;
        write!(
            f,
            "{instruction} (pipe {pipe}) of rank {rank} {core} at {place}"
        )
    }
}

/// A fault in a kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Finding {
    /// Which check.
    pub check: Check,
    /// What is wrong, in a few words.
    pub what: &'static str,
    /// The kernel.
    pub kernel: String,
    /// The instruction that was found out.
    pub by: Party,
    /// The other one, where there are two.
    pub with: Option<Party>,
    /// Which bytes of which memory; or the flag.
    pub memory: String,
    /// What would have ordered them, or prevented it.
    pub hint: String,
}

/// What findings that are alike have in common.
pub(super) type Kind = (Check, &'static str, String, String, String);

impl Finding {
    pub(super) fn kind(&self) -> Kind {
        let place = |party: &Party| format!("{} {} {}", party.pipe, party.instruction, party.place);
        let with = self.with.as_ref().map(place).unwrap_or_default();
        (
            self.check,
            self.what,
            self.kernel.clone(),
            place(&self.by),
            with,
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let check = format!("{:?}", self.check).to_lowercase();
        writeln!(
            f,
            "{check}: {} in {}: {}",
            self.what, self.kernel, self.memory
        )?;
        write!(f, "  {}", self.by)?;
        if let Some(with) = &self.with {
            write!(f, "\n  after {with}")?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  -> {}", self.hint)?;
        }
        Ok(())
    }
}
