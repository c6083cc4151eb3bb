//! Addresses in an on-chip memory, handed out one behind the other.

use crate::soc::Soc;
use crate::stage::PlanError;

/// Alignment of every address on the chip.
pub const ONCHIP_ALIGN: u32 = 32;
/// End of UB that some vector instructions use themselves.
pub const UB_SCRATCH_BYTES: u64 = 8192;

/// Elements that a line of UB has room for on the device, whatever their type.
pub const MAX_LINE: u32 = 8192;

/// Places in one memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnChip {
    used: u64,
}

impl OnChip {
    /// The next `bytes`; their address. Too much is found by [`OnChip::check_ub`].
    pub fn take(&mut self, bytes: u64) -> u32 {
        let address = self.used;
        self.used = address
            .saturating_add(bytes)
            .next_multiple_of(ONCHIP_ALIGN.into());
        u32::try_from(address).unwrap_or(u32::MAX)
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Whether UB of `soc` holds what was taken for `what`.
    ///
    /// # Errors
    /// [`PlanError::Memory`] with both numbers.
    pub fn check_ub(&self, stage: &'static str, what: &str, soc: &Soc) -> Result<(), PlanError> {
        let available = usable_ub(soc);
        if self.used <= available {
            return Ok(());
        }
        Err(PlanError::Memory {
            stage,
            memory: "UB",
            what: what.to_owned(),
            needed: self.used,
            available,
        })
    }
}

/// Bytes of UB that stages may use.
#[must_use]
pub fn usable_ub(soc: &Soc) -> u64 {
    soc.ub_bytes.saturating_sub(UB_SCRATCH_BYTES)
}
