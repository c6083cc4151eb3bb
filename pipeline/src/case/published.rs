//! `case.json` of the published format.

use std::path::Path;

use moe_core::{FloatType, ProblemSpec};
use serde::{Deserialize, Serialize};

use super::CaseError;

/// The only version of the format.
const VERSION: u64 = 2;

/// The fields of `case.json`, in their order. Every one is needed and no other is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCase {
    /// Version of the format, 2.
    pub data_cache_version: u64,
    /// Number of ranks.
    pub world_size: u64,
    /// Tokens of each rank.
    pub m: u64,
    /// Hidden.
    pub k: u64,
    /// Twice the intermediate size.
    pub n: u64,
    /// Experts per token.
    pub topk: u64,
    /// Experts of each rank.
    pub expert_per_rank: u64,
    /// Rows that a rank can receive.
    pub max_output_size: u64,
    /// Matrix cores of the device that it was made for.
    pub aic_num: u64,
    /// Vector cores of the device that it was made for.
    pub aiv_num: u64,
    /// How the expected output came about.
    pub case_mode: String,
    /// What computed it.
    pub golden_backend: String,
    /// Rows that it computed at a time.
    pub golden_chunk_rows: u64,
    /// Seed of the writer.
    pub seed: u64,
    /// Absolute tolerance of the writer's own comparison.
    pub compare_atol: f64,
    /// Relative tolerance of the writer's own comparison.
    pub compare_rtol: f64,
}

impl PublishedCase {
    /// The description that the published writer gives for these sizes; `None` when the format can't
    /// say them (uneven token counts or other types).
    #[must_use]
    pub fn for_problem(spec: &ProblemSpec) -> Option<Self> {
        let m = *spec.tokens_per_rank.first()?;
        let even = spec.tokens_per_rank.iter().all(|&tokens| tokens == m);
        let types = (spec.input_type, spec.output_type) == (FloatType::Bf16, FloatType::F16);
        (even && types).then(|| Self {
            data_cache_version: VERSION,
            world_size: spec.tokens_per_rank.len() as u64,
            m: m.into(),
            k: spec.hidden.into(),
            n: 2 * u64::from(spec.intermediate),
            topk: spec.top_k.into(),
            expert_per_rank: spec.experts_per_rank.into(),
            max_output_size: spec.max_output_size.into(),
            aic_num: 24,
            aiv_num: 48,
            case_mode: "cpu-golden".to_owned(),
            golden_backend: "python-batch".to_owned(),
            golden_chunk_rows: 512,
            seed: 20_260_515,
            compare_atol: 1e-4,
            compare_rtol: 1e-3,
        })
    }

    /// The text of the file, byte for byte as the published writer has it.
    ///
    /// # Errors
    /// Never for finite tolerances.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }

    /// Parses the text of the file at `path`.
    ///
    /// # Errors
    /// [`CaseError`] names the field.
    pub fn parse(path: &Path, text: &str) -> Result<Self, CaseError> {
        let case: Self = serde_json::from_str(text).map_err(|error| CaseError::Syntax {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        if case.data_cache_version != VERSION {
            return Err(CaseError::Field {
                path: path.to_owned(),
                field: "data_cache_version",
                value: case.data_cache_version.to_string(),
                rule: format!("only version {VERSION} is known"),
            });
        }
        Ok(case)
    }

    /// The sizes, still to be checked.
    ///
    /// # Errors
    /// [`CaseError::Field`] when a size does not fit 32 bits, or `n` is odd.
    pub fn spec(&self, path: &Path) -> Result<ProblemSpec, CaseError> {
        let field = |field: &'static str, value: u64, rule: String| CaseError::Field {
            path: path.to_owned(),
            field,
            value: value.to_string(),
            rule,
        };
        let size = |name: &'static str, value: u64| {
            u32::try_from(value)
                .map_err(|_| field(name, value, format!("must be at most {}", u32::MAX)))
        };
        let ranks = size("world_size", self.world_size)?;
        if ranks > moe_core::limits::MAX_RANKS {
            let rule = format!("must be at most {}", moe_core::limits::MAX_RANKS);
            return Err(field("world_size", self.world_size, rule));
        }
        if !self.n.is_multiple_of(2) {
            let rule = "must be even: it is twice the intermediate size".to_owned();
            return Err(field("n", self.n, rule));
        }
        Ok(ProblemSpec {
            tokens_per_rank: vec![size("m", self.m)?; ranks as usize],
            hidden: size("k", self.k)?,
            intermediate: size("n", self.n / 2)?,
            experts_per_rank: size("expert_per_rank", self.expert_per_rank)?,
            top_k: size("topk", self.topk)?,
            max_output_size: size("max_output_size", self.max_output_size)?,
            input_type: FloatType::Bf16,
            output_type: FloatType::F16,
        })
    }
}
