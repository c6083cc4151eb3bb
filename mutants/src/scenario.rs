//! Launches under which a mutant is looked at: small, and together they go through every path of the kernels.

use std::sync::Arc;
use std::time::Duration;

use megamoe_combine::{DirectLarge, DirectSmall};
use megamoe_device::checked::CheckedKernels;
use megamoe_dispatch::Dispatch;
use megamoe_front_reorder::{FullLoad, MultiCore, OneCore};
use megamoe_gmm::{Gmm1, Gmm2};
use megamoe_pipeline::check::{CheckOptions, Checked, check};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::layer::{LayerStages, planner};
use megamoe_pipeline::schedule::Schedule;
use megamoe_swiglu::Swiglu;
use megamoe_swiglu::reference::{Activation, ActivationOptions};
use megamoe_unpermute::Unpermute;
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{FloatType, Problem, ProblemSpec, Soc};

/// How FrontReorder sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    FullLoad,
    OneCore,
    MultiCore,
}

/// One kind of launch.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its name.
    pub(crate) name: &'static str,
    tokens: &'static [u32],
    sizes: [u32; 4],
    front: Front,
    small_combine: bool,
    gelu: bool,
    fused: bool,
    schedule: &'static str,
    seeds: u64,
}

/// Hidden size, intermediate size, experts of each rank, experts of each token.
const SMALL: [u32; 4] = [128, 64, 3, 2];
/// Several steps and tiles of everything that is cut into pieces.
const TALL: [u32; 4] = [1600, 640, 1, 1];

const BASE: Scenario = Scenario {
    name: "fused",
    tokens: &[20, 11],
    sizes: SMALL,
    front: Front::FullLoad,
    small_combine: false,
    gelu: false,
    fused: true,
    schedule: "waves",
    seeds: 2,
};

/// In the order in which they are tried.
pub(crate) const SCENARIOS: [Scenario; 13] = [
    BASE,
    Scenario {
        name: "stages",
        fused: false,
        ..BASE
    },
    Scenario {
        name: "one core sorts",
        front: Front::OneCore,
        ..BASE
    },
    Scenario {
        name: "many cores sort",
        front: Front::MultiCore,
        ..BASE
    },
    Scenario {
        name: "stages, one core sorts",
        front: Front::OneCore,
        fused: false,
        ..BASE
    },
    Scenario {
        name: "stages, many cores sort, GELU",
        front: Front::MultiCore,
        fused: false,
        gelu: true,
        ..BASE
    },
    Scenario {
        name: "small Combine",
        small_combine: true,
        ..BASE
    },
    Scenario {
        name: "cores join",
        schedule: "seed",
        seeds: 4,
        ..BASE
    },
    Scenario {
        name: "tall",
        tokens: &[300],
        sizes: TALL,
        seeds: 1,
        ..BASE
    },
    Scenario {
        name: "many rows",
        tokens: &[1200],
        sizes: [64, 32, 1, 1],
        seeds: 1,
        ..BASE
    },
    Scenario {
        name: "long rows",
        tokens: &[9],
        sizes: [20_480, 32, 1, 1],
        seeds: 1,
        ..BASE
    },
    Scenario {
        name: "long activations",
        tokens: &[9],
        sizes: [64, 20_480, 1, 1],
        seeds: 1,
        ..BASE
    },
    Scenario {
        name: "tall stages",
        tokens: &[300],
        sizes: TALL,
        seeds: 1,
        fused: false,
        ..BASE
    },
];

impl Scenario {
    fn problem(&self) -> Problem {
        let [hidden, intermediate, experts_per_rank, top_k] = self.sizes;
        let routes: u32 = self.tokens.iter().map(|tokens| tokens * top_k).sum();
        ProblemSpec {
            tokens_per_rank: self.tokens.to_vec(),
            hidden,
            intermediate,
            experts_per_rank,
            top_k,
            max_output_size: routes,
            input_type: FloatType::Bf16,
            output_type: FloatType::F16,
        }
        .build()
        .expect("scenarios are legal")
    }

    fn activation(&self) -> ActivationOptions {
        let (activation, limit) = if self.gelu {
            (Activation::Gelu, Some(7.0))
        } else {
            (Activation::Silu, None)
        };
        ActivationOptions { activation, limit }
    }

    fn stages(&self) -> LayerStages {
        let (gmm1, gmm2) = (Gmm1::default(), Gmm2::default());
        LayerStages {
            front: match self.front {
                Front::FullLoad => planner(FullLoad),
                Front::OneCore => planner(OneCore),
                Front::MultiCore => planner(MultiCore),
            },
            dispatch: planner(Dispatch),
            gmm1: planner(gmm1),
            swiglu: planner(Swiglu {
                options: self.activation(),
            }),
            gmm2: planner(gmm2),
            combine: if self.small_combine {
                planner(DirectSmall)
            } else {
                planner(DirectLarge)
            },
            unpermute: planner(Unpermute),
        }
    }

    /// Runs it; the first run that is not clean, or the last.
    pub(crate) fn run(&self, kernels: Option<&Arc<CheckedKernels>>) -> Result<Checked, String> {
        let problem = self.problem();
        let data = DataSpec {
            kind: DataKind::Random,
            routing: RoutingSource::Made(RoutingKind::Uniform),
            seed: 5,
        };
        let inputs = generate(&problem, &data, &|| ()).map_err(|error| error.to_string())?;
        let soc = Soc {
            num_aic: 3,
            ..Soc::named("Ascend910B1").expect("socs.toml has it")
        };
        let schedule = Schedule::named(self.schedule).map_err(|error| error.to_string())?;
        let mut last = Err("no seeds".to_owned());
        for seed in 0..self.seeds {
            let this = self.clone();
            let options = CheckOptions {
                seed,
                launches: 3,
                stages: Some(Arc::new(move || this.stages())),
                activation: self.activation(),
                kernels: kernels.cloned(),
                deadline: Duration::from_secs(20),
                ..CheckOptions::new(soc.clone(), self.fused.then(|| schedule.clone()))
            };
            let checked = check(&problem, &inputs, &options).map_err(|error| error.to_string())?;
            let is_clean = checked.is_clean();
            last = Ok(checked);
            if !is_clean {
                break;
            }
        }
        last
    }
}
