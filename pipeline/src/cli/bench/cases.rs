//! What is measured.

use megamoe_pipeline::generate::{DataSpec, RoutingSource};
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;
use moe_core::{FloatType, Problem, ProblemSpec};

use super::super::CliError;

/// A layer of some size with some routing.
#[derive(Clone, Debug)]
pub(super) struct BenchCase {
    /// Name in reports.
    pub(super) name: String,
    /// Ranks.
    pub(super) ranks: u32,
    /// Tokens of each rank.
    pub(super) tokens: u32,
    /// Hidden size.
    pub(super) hidden: u32,
    /// Intermediate size.
    pub(super) intermediate: u32,
    /// Experts of all ranks.
    pub(super) experts: u32,
    /// Experts of a token.
    pub(super) top_k: u32,
    /// How tokens choose them.
    pub(super) routing: RoutingKind,
    /// Most timed launches.
    pub(super) repeat: u32,
}

/// `(hidden, intermediate, experts, top_k)`.
type Layer = (u32, u32, u32, u32);

/// The layer that most cases vary: 200 MB of weights.
const SMALL: Layer = (2048, 1024, 32, 8);
/// The published performance cases.
const SEED: Layer = (7168, 2048, 128, 8);

/// Layers of published models, with our activation: none of them is run as its model would.
const MODELS: [(&str, Layer); 10] = [
    ("Qwen3.5-35B-A3B", (2048, 512, 256, 8)),
    ("Qwen3-30B-A3B", (2048, 768, 128, 8)),
    ("gpt-oss-20b", (2880, 2880, 32, 4)),
    ("Nemotron-Nano", (2688, 1856, 128, 6)),
    ("gemma-4-26B", (2816, 704, 128, 8)),
    ("Mixtral-8x7B", (4096, 14336, 8, 2)),
    ("seed", SEED),
    ("DeepSeek-V4-Flash", (4096, 2048, 256, 6)),
    ("DeepSeek-V3", (7168, 2048, 256, 8)),
    ("Kimi-K2", (7168, 2048, 384, 8)),
];

impl BenchCase {
    fn new(name: impl Into<String>, ranks: u32, tokens: u32, layer: Layer) -> Self {
        let (hidden, intermediate, experts, top_k) = layer;
        Self {
            name: name.into(),
            ranks,
            tokens,
            hidden,
            intermediate,
            experts,
            top_k,
            routing: RoutingKind::Uniform,
            repeat: 15,
        }
    }

    fn repeated(mut self, repeat: u32) -> Self {
        self.repeat = repeat;
        self
    }

    /// Its sizes, checked.
    pub(super) fn problem(&self) -> Result<Problem, CliError> {
        let spec = ProblemSpec {
            tokens_per_rank: vec![self.tokens; self.ranks as usize],
            hidden: self.hidden,
            intermediate: self.intermediate,
            experts_per_rank: self.experts / self.ranks,
            top_k: self.top_k,
            max_output_size: self.max_output_size(),
            input_type: FloatType::Bf16,
            output_type: FloatType::F16,
        };
        Ok(spec.build()?)
    }

    /// Enough for any routing: a token never names an expert twice.
    fn max_output_size(&self) -> u32 {
        self.ranks * self.tokens * self.top_k.min(self.experts / self.ranks)
    }

    /// Its inputs.
    pub(super) fn data(&self, seed: u64) -> DataSpec {
        DataSpec {
            kind: DataKind::Random,
            routing: RoutingSource::Made(self.routing.clone()),
            seed,
        }
    }

    /// Bytes of a layer's weights.
    pub(super) fn weight_bytes(&self) -> u64 {
        3 * u64::from(self.hidden) * u64::from(self.intermediate) * u64::from(self.experts)
    }

    /// The arguments of `megamoe run` that describe it.
    pub(super) fn run_arguments(&self, seed: u64) -> Vec<String> {
        let pairs = [
            ("--world-size", self.ranks.to_string()),
            ("--m", self.tokens.to_string()),
            ("--k", self.hidden.to_string()),
            ("--n", (2 * self.intermediate).to_string()),
            ("--topk", self.top_k.to_string()),
            ("--experts", (self.experts / self.ranks).to_string()),
            ("--max-output-size", self.max_output_size().to_string()),
            ("--routing", self.routing.to_string()),
            ("--seed", seed.to_string()),
        ];
        let pairs = pairs
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value]);
        pairs.collect()
    }
}

/// What the layer is judged by: many tokens, the published sizes, few tokens.
pub(super) fn goals() -> Vec<BenchCase> {
    vec![
        BenchCase::new("many tokens", 1, 4096, SMALL).repeated(5),
        BenchCase::new("few tokens", 1, 16, SMALL).repeated(31),
        BenchCase::new("seed, 8 ranks", 8, 512, SEED).repeated(3),
    ]
}

/// Models whose weights fit: many tokens and few, over 8 ranks.
pub(super) fn models(max_bytes: u64) -> Vec<BenchCase> {
    let both = MODELS.into_iter().flat_map(|(name, layer)| {
        [
            BenchCase::new(name, 8, 8, layer),
            BenchCase::new(name, 8, 128, layer).repeated(3),
        ]
    });
    both.filter(|case| case.weight_bytes() <= max_bytes)
        .collect()
}

/// Series in which one size varies.
pub(super) fn series() -> Vec<(&'static str, Vec<BenchCase>)> {
    let (hidden, intermediate, experts, top_k) = SMALL;
    let tokens = [1, 4, 16, 64, 256, 1024, 4096];
    let tokens = tokens.map(|tokens| BenchCase::new(format!("{tokens} tokens"), 1, tokens, SMALL));
    let experts_of = |count: u32| {
        let layer = (hidden, intermediate, count, top_k);
        BenchCase::new(format!("{count} experts"), 1, 512, layer)
    };
    let ranks = [1, 2, 4, 8, 16];
    let ranks =
        ranks.map(|ranks| BenchCase::new(format!("{ranks} ranks"), ranks, 1024 / ranks, SMALL));
    let skews = [
        RoutingKind::Balanced,
        RoutingKind::Uniform,
        RoutingKind::Zipf(0.5),
        RoutingKind::Zipf(1.0),
        RoutingKind::Zipf(1.5),
    ];
    let skews = skews.map(|routing| BenchCase {
        routing: routing.clone(),
        ..BenchCase::new(
            routing.to_string(),
            4,
            256,
            (hidden, intermediate, experts, top_k),
        )
    });
    let few = |case: BenchCase| case.repeated(7);
    vec![
        ("tokens", tokens.map(few).to_vec()),
        (
            "experts",
            [8, 16, 32, 64, 128, 256].map(experts_of).map(few).to_vec(),
        ),
        ("ranks", ranks.map(few).to_vec()),
        ("skew", skews.map(few).to_vec()),
    ]
}

/// Ranks as threads and as processes do the same.
pub(super) fn ranks_kinds() -> BenchCase {
    BenchCase::new("4 ranks", 4, 256, SMALL).repeated(15)
}

/// Almost no work: a token on each of 8 ranks.
pub(super) fn launch() -> BenchCase {
    BenchCase::new("launch", 8, 1, (64, 32, 8, 1)).repeated(201)
}

/// A layer that continuous integration has time for.
pub(super) fn guard() -> BenchCase {
    BenchCase::new("guard", 1, 1024, (1024, 512, 16, 4)).repeated(15)
}
