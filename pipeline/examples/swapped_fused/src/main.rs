//! A fused kernel with another activation and a Combine of one's own: `build.rs` names the classes, this file
//! the stages that plan them.
//!
//! `cargo run --release -p swapped-fused`

use megamoe_combine::{CombineTiling, DirectLarge};
use megamoe_device::{Kernel, RunStage};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::layer::{LayerStages, MegaMoe, planner};
use megamoe_pipeline::schedule::CombinePath;
use megamoe_pipeline::{fused_kernel, reference};
use megamoe_swiglu::reference::{Activation, ActivationOptions};
use megamoe_window::world::BoxError;
use megamoe_window::{WindowLayout, World};
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{FloatType, KernelSource, Plan, PlanError, Problem, ProblemSpec, Soc, Stage};

/// The host's half of `kernel/rotated_combine.h`: tiles as the stage that it builds on.
struct RotatedCombine;

impl Stage for RotatedCombine {
    type Slot = moe_core::slot::Combine;
    type Tiling = CombineTiling;

    fn name(&self) -> &'static str {
        "combine-rotated"
    }

    fn kernel_source(&self) -> KernelSource {
        KernelSource {
            header: "rotated_combine.h",
            class: "RotatedCombine<Out, Sync>",
        }
    }

    fn plan(
        &self,
        problem: &Problem,
        rank: u32,
        soc: &Soc,
    ) -> Result<Plan<CombineTiling>, PlanError> {
        DirectLarge.plan(problem, rank, soc)
    }
}

impl RunStage for RotatedCombine {
    /// By itself the stage is the one that it builds on: who deals the blocks changes no result.
    fn kernel(&self) -> Kernel {
        DirectLarge.kernel()
    }
}

fn main() -> Result<(), BoxError> {
    let problem = ProblemSpec {
        tokens_per_rank: vec![24, 9],
        hidden: 128,
        intermediate: 96,
        experts_per_rank: 4,
        top_k: 2,
        max_output_size: 66,
        input_type: FloatType::Bf16,
        output_type: FloatType::Bf16,
    }
    .build()?;
    let data = DataSpec {
        kind: DataKind::Random,
        routing: RoutingSource::Made(RoutingKind::Uniform),
        seed: 1,
    };
    let inputs = generate(&problem, &data, &|| ())?;
    let gelu = ActivationOptions {
        activation: Activation::Gelu,
        ..ActivationOptions::default()
    };
    let world = World::new(WindowLayout::new(&problem)?);
    let outputs = world.run_threads(|window| {
        let mut stages = LayerStages::standard(gelu, CombinePath::Auto);
        stages.combine = planner(RotatedCombine);
        let mine = &inputs[window.rank() as usize];
        let mut layer = MegaMoe::builder(&problem)
            .stages(stages)
            .fused_kernel(fused_kernel!(swapped_layer))
            .build(window, &mine.weights)?;
        layer.run(mine)?;
        Ok(layer.output()?)
    })?;
    assert_eq!(
        outputs,
        reference::run(&problem, &inputs, gelu).out,
        "the layer equals the oracle bit for bit"
    );
    println!("swapped_layer: GELU, combine-rotated: right");
    Ok(())
}
