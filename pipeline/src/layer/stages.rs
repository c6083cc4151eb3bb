//! Which stages a layer is made of, and their plans for one launch.

use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::{PlannedStage, RunStage};
use megamoe_dispatch::Dispatch;
use megamoe_front_reorder::Path;
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::ActivationOptions;
use megamoe_unpermute::Unpermute;
use moe_core::slot;
use moe_core::{KernelSource, PlanError, Problem, Slot, Soc, StageKind};

use crate::schedule::CombinePath;

/// Routes up to which Combine cuts rows into small blocks, so that more cores work.
const MAX_ROUTES_OF_SMALL_COMBINE: u32 = 4096;
/// Vector cores from which that pays: with fewer, whole rows occupy all of them. On 4 cores whole rows take
/// a quarter of the time (`cargo bench -p megamoe-combine`, 128 tokens).
const MIN_CORES_OF_SMALL_COMBINE: u32 = 16;

/// Plans the stage of a slot for a problem, a rank and a SoC. Ranks differ in their number of tokens, and
/// launches may too.
pub type Planner<S> =
    Box<dyn Fn(&Problem, u32, &Soc) -> Result<PlannedStage<S>, PlanError> + Send + Sync>;

/// Plans a stage of one's own.
pub fn planner<T: RunStage + Send + Sync + 'static>(stage: T) -> Planner<T::Slot> {
    Box::new(move |problem, rank, soc| PlannedStage::new(&stage, problem, rank, soc))
}

macro_rules! positions {
    ($($(#[$doc:meta])* $name:ident: $slot:ident,)*) => {
        /// The stages of a layer; one of one's own takes the place of another by its slot's type.
        pub struct LayerStages {
            $($(#[$doc])* pub $name: Planner<slot::$slot>,)*
        }

        /// The stages of a layer, planned for one rank and its number of tokens.
        #[derive(Clone, Debug)]
        pub struct LayerPlan {
            $($(#[$doc])* pub $name: PlannedStage<slot::$slot>,)*
        }

        impl LayerStages {
            /// Plans all of them.
            ///
            /// # Errors
            /// As [`moe_core::Stage::plan`] of each.
            pub fn plan(
                &self,
                problem: &Problem,
                rank: u32,
                soc: &Soc,
            ) -> Result<LayerPlan, PlanError> {
                Ok(LayerPlan {
                    $($name: (self.$name)(problem, rank, soc)?,)*
                })
            }
        }

        impl LayerPlan {
            /// Each of them, in order.
            #[must_use]
            pub fn list(&self) -> Vec<StageEntry> {
                vec![$(StageEntry::of(&self.$name),)*]
            }
        }
    };
}

positions! {
    /// Sorts, quantises, exchanges counts.
    front: FrontReorder,
    /// Pulls rows.
    dispatch: Dispatch,
    /// First matmul.
    gmm1: Gmm1,
    /// Activation.
    swiglu: Swiglu,
    /// Second matmul.
    gmm2: Gmm2,
    /// Returns rows.
    combine: Combine,
    /// Sums rows.
    unpermute: Unpermute,
}

impl std::fmt::Debug for LayerStages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerStages").finish_non_exhaustive()
    }
}

impl LayerStages {
    /// The standard stages, with the variants that suit each launch.
    #[must_use]
    pub fn standard(activation: ActivationOptions, combine: CombinePath) -> Self {
        Self {
            front: Box::new(|problem, rank, soc| {
                let path = Path::choose(problem, rank, soc);
                megamoe_front_reorder::planned(path, problem, rank, soc)
            }),
            dispatch: planner(Dispatch),
            gmm1: planner(Gmm1::default()),
            swiglu: planner(Swiglu {
                options: activation,
            }),
            gmm2: planner(Gmm2::default()),
            combine: Box::new(move |problem, rank, soc| {
                if is_small(combine, problem, rank, soc) {
                    PlannedStage::new(&DirectSmall, problem, rank, soc)
                } else {
                    PlannedStage::new(&DirectLarge, problem, rank, soc)
                }
            }),
            unpermute: planner(Unpermute),
        }
    }
}

fn is_small(path: CombinePath, problem: &Problem, rank: u32, soc: &Soc) -> bool {
    match path {
        CombinePath::Small => true,
        CombinePath::Large => false,
        CombinePath::Auto => {
            problem.num_routes(rank) <= MAX_ROUTES_OF_SMALL_COMBINE
                && soc.num_aiv() >= MIN_CORES_OF_SMALL_COMBINE
        }
    }
}

/// A planned stage, for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageEntry {
    /// Position.
    pub kind: StageKind,
    /// Name of the stage.
    pub name: &'static str,
    /// Its device code.
    pub source: KernelSource,
    /// Physical cores.
    pub num_blocks: u32,
    /// Bytes of scratch.
    pub workspace_bytes: u64,
}

impl StageEntry {
    fn of<S: Slot>(stage: &PlannedStage<S>) -> Self {
        Self {
            kind: S::KIND,
            name: stage.name(),
            source: stage.kernel_source(),
            num_blocks: stage.num_blocks(),
            workspace_bytes: stage.workspace_bytes(),
        }
    }
}
