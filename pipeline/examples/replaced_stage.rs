//! A stage of one's own, in plain Rust, in an otherwise standard layer.
//!
//! `cargo run --release -p megamoe-pipeline --example replaced_stage`

use bytemuck::{Pod, Zeroable};
use half::f16;
use megamoe_device::{Kernel, KernelCores, RunStage};
use megamoe_pipeline::generate::{DataSpec, RoutingSource, generate};
use megamoe_pipeline::layer::{LayerStages, MegaMoe, planner};
use megamoe_pipeline::reference;
use megamoe_pipeline::schedule::CombinePath;
use megamoe_swiglu::reference::{ActivationOptions, swiglu};
use megamoe_window::world::BoxError;
use megamoe_window::{WindowLayout, World};
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::slot::SwigluIo;
use moe_core::{FloatType, Gm, KernelSource, Plan, PlanError, Problem, ProblemSpec, Soc, Stage};

/// The activation as one core that runs the oracle.
struct PlainSwiglu;

/// What it needs besides the views.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct PlainTiling {
    experts_per_rank: u32,
    intermediate: u32,
}

impl Stage for PlainSwiglu {
    // The slot says which views go in and out: with another one the layer would not take the stage.
    type Slot = moe_core::slot::Swiglu;
    type Tiling = PlainTiling;

    fn name(&self) -> &'static str {
        "swiglu-plain"
    }

    fn kernel_source(&self) -> KernelSource {
        // Plain Rust has no C++ to build into the fused kernel: the stage runs by itself only.
        KernelSource {
            header: "",
            class: "",
        }
    }

    fn plan(
        &self,
        problem: &Problem,
        _rank: u32,
        _soc: &Soc,
    ) -> Result<Plan<PlainTiling>, PlanError> {
        Ok(Plan {
            tiling: PlainTiling {
                experts_per_rank: problem.experts_per_rank(),
                intermediate: problem.intermediate(),
            },
            workspace_bytes: 0,
            num_blocks: 1,
        })
    }
}

impl RunStage for PlainSwiglu {
    fn kernel(&self) -> Kernel {
        Kernel {
            name: "plain_swiglu",
            // One block of this kind is one core.
            cores: KernelCores::Aic,
            entry: plain_swiglu,
            checked: None,
        }
    }
}

/// The kernel: a function like any other, called once on each core.
unsafe extern "C" fn plain_swiglu(args: *mut u8) {
    #[repr(C)]
    struct Args {
        tiling: PlainTiling,
        io: SwigluIo,
    }
    // SAFETY: a launch passes the tiling, then the views of the slot.
    let Args { tiling, io } = unsafe { args.cast::<Args>().read() };
    // SAFETY: the slot's contract gives shape and type of every view.
    unsafe {
        let last = io.expert_offset.add(tiling.experts_per_rank.into());
        let num_rows = values(last, 1)[0] as usize;
        let intermediate = tiling.intermediate as usize;
        let h: &[f16] = values(io.h, num_rows * 2 * intermediate);
        let scale: &[f32] = values(io.row_scale, num_rows);
        let result = swiglu(tiling.intermediate, h, scale, ActivationOptions::default());
        let (q, q_scale) = (io.q.address() as *mut i8, io.q_scale.address() as *mut f32);
        q.copy_from_nonoverlapping(result.q.as_ptr(), result.q.len());
        q_scale.copy_from_nonoverlapping(result.q_scale.as_ptr(), num_rows);
    }
}

/// # Safety
/// `len` values are there, and nobody writes them meanwhile.
unsafe fn values<'a, T>(view: Gm<T>, len: usize) -> &'a [T] {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(view.address() as *const T, len) }
}

fn main() -> Result<(), BoxError> {
    let problem = ProblemSpec {
        tokens_per_rank: vec![24],
        hidden: 128,
        intermediate: 96,
        experts_per_rank: 4,
        top_k: 2,
        max_output_size: 48,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()?;
    let data = DataSpec {
        kind: DataKind::Random,
        routing: RoutingSource::Made(RoutingKind::Uniform),
        seed: 1,
    };
    let inputs = generate(&problem, &data, &|| ())?;
    let world = World::new(WindowLayout::new(&problem)?);
    let outputs = world.run_threads(|window| {
        let mut stages = LayerStages::standard(ActivationOptions::default(), CombinePath::Auto);
        stages.swiglu = planner(PlainSwiglu);
        let mine = &inputs[window.rank() as usize];
        let mut layer = MegaMoe::builder(&problem)
            .stages(stages)
            .separate(true)
            .build(window, &mine.weights)?;
        for stage in layer.plan().list() {
            let (position, name, cores) = (stage.kind, stage.name, stage.num_blocks);
            println!("{position:>13}  {name:<18} {cores} cores");
        }
        layer.run(mine)?;
        Ok(layer.output()?)
    })?;
    let want = reference::run(&problem, &inputs, ActivationOptions::default()).out;
    assert_eq!(outputs, want, "the layer equals the oracle bit for bit");
    println!("right");
    Ok(())
}
