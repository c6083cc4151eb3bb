//! One stage of one rank at the published sizes: K 7168, N 4096, top-k 8, 16 experts.
//!
//! A world of one rank stands for each of eight: it receives as many rows as it sends.

use std::sync::Arc;
use std::time::Duration;

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use megamoe_device::{Buffer, Device, ExecutorOptions, PlannedStage, VirtualDevice, upload, view};
use moe_core::exchange::{CountTable, HostMetadata};
use moe_core::routing::RoutingKind;
use moe_core::slot::RouteMetadata;
use moe_core::{FloatType, Gm, Problem, ProblemSpec, Slot, Soc, StageKind};

use crate::traffic::stage_bytes;

/// Tokens of each rank in the published cases.
pub const PRESETS: [u32; 7] = [16, 32, 64, 128, 512, 1024, 2048];

/// What a stage does in a launch.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Multiplications and additions of int8.
    Int8Operations(f64),
    /// Bytes read and written.
    Bytes(f64),
}

/// A device, a problem, its routes, and the buffers that were asked for.
#[derive(Debug)]
pub struct Rig {
    /// Sizes.
    pub problem: Problem,
    /// Where the stage runs.
    pub device: VirtualDevice,
    /// `[num_tokens, top_k]`.
    pub topk_ids: Vec<i32>,
    /// What follows from the routes.
    pub metadata: HostMetadata,
    buffers: Vec<Box<dyn Buffer>>,
}

impl Rig {
    /// The rig for a preset.
    ///
    /// # Panics
    /// When the machine has not enough memory: a benchmark has nothing better to do.
    #[must_use]
    pub fn new(tokens: u32) -> Self {
        let problem = ProblemSpec {
            tokens_per_rank: vec![tokens],
            hidden: 7168,
            intermediate: 2048,
            experts_per_rank: 16,
            top_k: 8,
            max_output_size: tokens * 8,
            input_type: FloatType::Bf16,
            output_type: FloatType::F16,
        };
        let problem = problem.build().expect("the published sizes");
        let soc = Soc::named("host").expect("a known SoC");
        let device = VirtualDevice::alone(soc, ExecutorOptions::default()).expect("threads");
        let ids = RoutingKind::Uniform
            .generate(&problem, 1)
            .expect("8 of 16 experts");
        let topk_ids = ids.into_iter().next().unwrap_or_default();
        let metadata = CountTable::from_ids(&problem, [topk_ids.as_slice()]).metadata(0);
        Self {
            problem,
            device,
            topk_ids,
            metadata,
            buffers: Vec::new(),
        }
    }

    /// Rows that the rank receives.
    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.topk_ids.len() as u64
    }

    /// What a stage that does not multiply must move.
    ///
    /// # Panics
    /// For a stage that multiplies.
    #[must_use]
    pub fn traffic(&self, stage: StageKind) -> Work {
        let bytes = stage_bytes(stage, &self.problem, self.num_rows());
        Work::Bytes(bytes.expect("a stage that moves rows") as f64)
    }

    /// Global memory with these values, for as long as the rig lives.
    ///
    /// # Panics
    /// As [`Rig::new`].
    pub fn put<T: bytemuck::Pod>(&mut self, values: &[T]) -> Gm<T> {
        let buffer = upload(&self.device, values).expect("enough memory");
        let address = view(buffer.as_ref());
        self.buffers.push(buffer);
        address
    }

    /// Global memory of `len` values, all the same.
    pub fn fill<T: bytemuck::Pod>(&mut self, len: u64, value: T) -> Gm<T> {
        self.put(&vec![value; len as usize])
    }

    /// Weights as a layer holds them: `len` bytes that kernels only read.
    ///
    /// # Panics
    /// As [`Rig::new`].
    pub fn weights(&mut self, len: u64, value: u8) -> Gm<i8> {
        let bytes = Arc::new(vec![value; len as usize]);
        let buffer = self.device.import(bytes).expect("enough memory");
        let address = view(buffer.as_ref());
        self.buffers.push(buffer);
        address
    }

    /// The metadata in global memory.
    pub fn put_metadata(&mut self) -> RouteMetadata {
        let metadata = self.metadata.clone();
        RouteMetadata {
            pre_sum: self.put(&metadata.pre_sum),
            cumsum: self.put(&metadata.cumsum),
            expert_offset: self.put(&metadata.expert_offset),
            expert_token_nums: self.put(&metadata.expert_token_nums),
            kept_end: self.put(&metadata.kept_end),
        }
    }

    /// Shortest time of a launch.
    ///
    /// # Safety
    /// As [`PlannedStage::run`].
    ///
    /// # Panics
    /// When the stage fails.
    pub unsafe fn time<S: Slot>(&self, stage: &PlannedStage<S>, io: &S::Io) -> Duration {
        crate::best_time(5, 1, || {
            // SAFETY: as the caller promises.
            unsafe { stage.run(&self.device, io) }.expect("the stage runs");
        })
    }
}

/// Prints a line for each preset: time, rate, and the share of the machine's peak.
pub fn report(stage: &str, mut measure: impl FnMut(u32) -> (Duration, Work)) {
    let int8 = crate::peak::int8_gops_of_all_cores();
    let copy = crate::peak::copy_gb_per_s_of_all_cores();
    println!(
        "{stage}; peaks of this machine: {int8:.0} GOPS int8, {copy:.1} GB/s copied (read + written)"
    );
    let mut table = Table::new();
    table
        .load_style(ASCII_MARKDOWN)
        .set_header(["tokens", "ms", "rate", "of peak"]);
    for tokens in PRESETS {
        let (time, work) = measure(tokens);
        let per_second = |amount: f64| amount / time.as_secs_f64() / 1e9;
        let (rate, unit, peak) = match work {
            Work::Int8Operations(operations) => (per_second(operations), "GOPS", int8),
            Work::Bytes(bytes) => (per_second(bytes), "GB/s", copy),
        };
        table.add_row([
            tokens.to_string(),
            format!("{:.3}", time.as_secs_f64() * 1e3),
            format!("{rate:.1} {unit}"),
            if peak > 0.0 {
                format!("{:.1} %", 100.0 * rate / peak)
            } else {
                String::new()
            },
        ]);
    }
    println!("{table}");
}
