//! Sizes on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use moe_core::{FloatType, Problem, ProblemSpec};

use super::CliError;

/// Sizes of the layer. A preset gives all of them; each can be overridden.
#[derive(Args, Clone, Debug)]
pub(super) struct ProblemArgs {
    /// Published performance case: 8 ranks, K 7168, N 4096, top-k 8, 16 experts per rank, and this M.
    #[arg(long, value_enum)]
    preset: Option<Preset>,
    /// Ranks.
    #[arg(long, value_name = "R")]
    world_size: Option<u32>,
    /// Tokens of each rank.
    #[arg(long, value_name = "M")]
    m: Option<u32>,
    /// Tokens of each rank where they differ, for example 5,0,3; its length is the number of ranks.
    #[arg(long, value_name = "M0,M1,..", value_delimiter = ',', conflicts_with_all = ["m", "world_size"])]
    tokens_per_rank: Option<Vec<u32>>,
    /// Hidden size.
    #[arg(long, value_name = "K")]
    k: Option<u32>,
    /// Columns of the first matmul: twice the intermediate size.
    #[arg(long, value_name = "N")]
    n: Option<u32>,
    /// Experts per token.
    #[arg(long, value_name = "T")]
    topk: Option<u32>,
    /// Experts of each rank.
    #[arg(long, value_name = "E")]
    experts: Option<u32>,
    /// Rows that a rank can receive [default: enough for any routing].
    #[arg(long, value_name = "S")]
    max_output_size: Option<u32>,
    /// Type of the tokens.
    #[arg(long, value_enum)]
    dtype: Option<FloatArg>,
    /// Type of the output.
    #[arg(long, value_enum)]
    out_dtype: Option<FloatArg>,
}

/// A case folder in place of sizes and generated data.
#[derive(Args, Clone, Debug)]
pub(super) struct CaseArgs {
    /// Case folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "preset", "world_size", "m", "tokens_per_rank", "k", "n", "topk", "experts",
        "max_output_size", "dtype", "out_dtype",
    ])]
    pub(super) case: Option<PathBuf>,
}

/// A 16-bit floating-point type.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FloatArg {
    Bf16,
    F16,
}

impl From<FloatArg> for FloatType {
    fn from(arg: FloatArg) -> Self {
        match arg {
            FloatArg::Bf16 => Self::Bf16,
            FloatArg::F16 => Self::F16,
        }
    }
}

/// The published performance cases.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Preset {
    #[value(name = "seed-16")]
    Seed16,
    #[value(name = "seed-32")]
    Seed32,
    #[value(name = "seed-64")]
    Seed64,
    #[value(name = "seed-128")]
    Seed128,
    #[value(name = "seed-512")]
    Seed512,
    #[value(name = "seed-1024")]
    Seed1024,
    #[value(name = "seed-2048")]
    Seed2048,
}

/// The sizes that the command line's letters stand for.
struct Sizes {
    world_size: u32,
    m: u32,
    k: u32,
    n: u32,
    topk: u32,
    experts: u32,
    max_output_size: Option<u32>,
}

/// What runs without arguments: about 6 GOP, a few seconds on a laptop.
const DEFAULT_SIZES: Sizes = Sizes {
    world_size: 4,
    m: 128,
    k: 1024,
    n: 1024,
    topk: 4,
    experts: 8,
    max_output_size: None,
};

impl Preset {
    fn sizes(self) -> Sizes {
        let m = match self {
            Self::Seed16 => 16,
            Self::Seed32 => 32,
            Self::Seed64 => 64,
            Self::Seed128 => 128,
            Self::Seed512 => 512,
            Self::Seed1024 => 1024,
            Self::Seed2048 => 2048,
        };
        Sizes {
            world_size: 8,
            m,
            k: 7168,
            n: 4096,
            topk: 8,
            experts: 16,
            max_output_size: Some(81940),
        }
    }
}

impl ProblemArgs {
    /// The checked sizes.
    pub(super) fn problem(&self) -> Result<Problem, CliError> {
        let base = self.preset.map_or(DEFAULT_SIZES, Preset::sizes);
        let tokens_per_rank = match &self.tokens_per_rank {
            Some(tokens) => tokens.clone(),
            None => vec![self.m.unwrap_or(base.m); self.num_ranks(&base)?],
        };
        let n = self.n.unwrap_or(base.n);
        if !n.is_multiple_of(2) {
            let message =
                format!("--n is {n}, but must be even: it is twice the intermediate size");
            return Err(CliError::Request(message));
        }
        let top_k = self.topk.unwrap_or(base.topk);
        let any_routing = || {
            let tokens: u64 = tokens_per_rank.iter().map(|&m| u64::from(m)).sum();
            let routes = (tokens * u64::from(top_k)).clamp(1, moe_core::limits::MAX_ROWS.into());
            u32::try_from(routes).unwrap_or(moe_core::limits::MAX_ROWS)
        };
        let max_output_size = self
            .max_output_size
            .or(base.max_output_size)
            .unwrap_or_else(any_routing);
        let spec = ProblemSpec {
            hidden: self.k.unwrap_or(base.k),
            intermediate: n / 2,
            experts_per_rank: self.experts.unwrap_or(base.experts),
            top_k,
            max_output_size,
            input_type: self.dtype.map_or(FloatType::Bf16, FloatType::from),
            output_type: self.out_dtype.map_or(FloatType::F16, FloatType::from),
            tokens_per_rank,
        };
        Ok(spec.build()?)
    }

    fn num_ranks(&self, base: &Sizes) -> Result<usize, CliError> {
        let ranks = self.world_size.unwrap_or(base.world_size);
        if ranks > moe_core::limits::MAX_RANKS {
            let max = moe_core::limits::MAX_RANKS;
            let message = format!("--world-size is {ranks}, but must be at most {max}");
            return Err(CliError::Request(message));
        }
        Ok(ranks as usize)
    }
}
