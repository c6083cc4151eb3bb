//! What an implementation of a slot is: a name, a plan for a problem on a SoC, and a kernel source.

use bytemuck::Pod;

use crate::problem::Problem;
use crate::slot::Slot;
use crate::soc::Soc;

/// The C++ side of a stage. A kernel that stitches stages together was built for some classes; by this it is
/// told whether a stage's plan is meant for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// Header as device code includes it, for example `dispatch/dispatch.h`.
    pub header: &'static str,
    /// Class in it, for example `megamoe::Dispatch<Sync>`: `Sync` stands for the synchronisation policy, and
    /// where a stage reads tokens or writes results `In` and `Out` for their types.
    pub class: &'static str,
}

/// What a launch of a stage needs: decided on the host, pure, printable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<T> {
    /// Sizes and offsets that device code reads.
    pub tiling: T,
    /// Bytes of scratch in global memory.
    pub workspace_bytes: u64,
    /// Physical cores to launch.
    pub num_blocks: u32,
}

/// A stage can't run this problem on this SoC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// An on-chip memory is too small.
    #[error("{stage} needs {needed} bytes of {memory} for {what}, the SoC has {available}")]
    Memory {
        /// Name of the stage.
        stage: &'static str,
        /// Which memory.
        memory: &'static str,
        /// What is kept there.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// A size of the problem is outside what this variant handles.
    #[error("{stage} takes {name} up to {max}, got {value}")]
    Size {
        /// Name of the stage.
        stage: &'static str,
        /// Name of the size.
        name: &'static str,
        /// The value.
        value: u64,
        /// Largest value handled.
        max: u64,
    },
    /// An option of the stage is illegal.
    #[error("{stage}: {name} is {value}, but {rule}")]
    Option {
        /// Name of the stage.
        stage: &'static str,
        /// Name of the option.
        name: &'static str,
        /// The value, written out.
        value: String,
        /// What it must satisfy.
        rule: String,
    },
}

/// One implementation of a slot.
pub trait Stage {
    /// The contract it fulfils.
    type Slot: Slot;
    /// What its device code reads besides the views: `#[repr(C)]`, no padding.
    type Tiling: Pod;

    /// Name, `{stage}-{variant}`.
    fn name(&self) -> &'static str;

    /// Its device code.
    fn kernel_source(&self) -> KernelSource;

    /// Whether it can run `problem` on `soc` as `rank`, and how, in one answer. Ranks differ in their
    /// number of tokens.
    ///
    /// # Errors
    /// [`PlanError`] names what does not fit, with both numbers.
    fn plan(
        &self,
        problem: &Problem,
        rank: u32,
        soc: &Soc,
    ) -> Result<Plan<Self::Tiling>, PlanError>;
}
