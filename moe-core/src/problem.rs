//! The size of one MoE FFN layer, checked once: whoever holds a [`Problem`] holds legal sizes.

use serde::{Deserialize, Serialize};

use crate::limits;

/// A 16-bit floating-point type that tokens come in and outputs leave in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FloatType {
    /// bfloat16: 8 exponent bits, 7 mantissa bits.
    Bf16,
    /// IEEE half precision: 5 exponent bits, 10 mantissa bits.
    F16,
}

impl std::fmt::Display for FloatType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        })
    }
}

/// What is wrong with the sizes of a problem: the thing, its value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemError {
    /// A size lies below its smallest legal value.
    #[error("{name} is {value}, but must be at least {min}")]
    TooSmall {
        /// Name of the size.
        name: &'static str,
        /// The value given.
        value: u64,
        /// Smallest legal value.
        min: u64,
    },
    /// A size lies above its largest legal value.
    #[error("{name} is {value}, but must be at most {max}{reason}")]
    TooLarge {
        /// Name of the size.
        name: &'static str,
        /// The value given.
        value: u64,
        /// Largest legal value.
        max: u64,
        /// Where the limit comes from, with a leading space, or empty.
        reason: &'static str,
    },
    /// A size is not a multiple of what the layouts need.
    #[error("{name} is {value}, but must be a multiple of {multiple}{reason}")]
    Misaligned {
        /// Name of the size.
        name: &'static str,
        /// The value given.
        value: u64,
        /// What it must be a multiple of.
        multiple: u64,
        /// Where the limit comes from, with a leading space.
        reason: &'static str,
    },
    /// Every rank's receive buffer must at least hold the routes of the largest source rank.
    #[error(
        "max_output_size is {value}, but must be at least {min} \
         (largest tokens per rank x top_k = {max_tokens} x {top_k})"
    )]
    MaxOutputTooSmall {
        /// The value given.
        value: u64,
        /// Smallest legal value.
        min: u64,
        /// Largest number of tokens of a rank.
        max_tokens: u32,
        /// Experts per token.
        top_k: u32,
    },
    /// A product of sizes overflows the 64 bits that offsets are computed in.
    #[error("{what} overflows 64 bits: {factors}")]
    Overflow {
        /// The quantity.
        what: &'static str,
        /// The factors, written out.
        factors: String,
    },
}

/// Sizes of a layer as given by a user, before they are checked by [`ProblemSpec::build`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemSpec {
    /// Number of tokens on each rank; its length is the number of ranks. A rank may have none.
    pub tokens_per_rank: Vec<u32>,
    /// Width of a token (K in the seeds).
    pub hidden: u32,
    /// Width after the activation; GMM1 writes twice as many columns (N in the seeds is twice this).
    pub intermediate: u32,
    /// Experts that live on each rank.
    pub experts_per_rank: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Rows that a rank can receive; more are dropped, counted and reported.
    pub max_output_size: u32,
    /// Type of the tokens.
    pub input_type: FloatType,
    /// Type of returned rows and of the output.
    pub output_type: FloatType,
}

impl ProblemSpec {
    /// Checks every size and product of sizes.
    ///
    /// # Errors
    /// The first [`ProblemError`] met; it names the size, its value and the limit.
    pub fn build(self) -> Result<Problem, ProblemError> {
        Problem::new(self)
    }
}

/// Sizes of one layer, checked. Experts are numbered globally: expert `e` lives on rank
/// `e / experts_per_rank`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    spec: ProblemSpec,
    num_experts: u32,
    max_tokens: u32,
}

impl Problem {
    /// Checks `spec`.
    ///
    /// # Errors
    /// The first [`ProblemError`] met.
    pub fn new(spec: ProblemSpec) -> Result<Self, ProblemError> {
        check_sizes(&spec)?;
        let num_experts = check_experts(&spec)?;
        let max_tokens = spec.tokens_per_rank.iter().copied().max().unwrap_or(0);
        check_rows(&spec, max_tokens)?;
        let problem = Self {
            spec,
            num_experts,
            max_tokens,
        };
        problem.check_bytes()?;
        Ok(problem)
    }

    /// The sizes as given.
    #[must_use]
    pub fn spec(&self) -> &ProblemSpec {
        &self.spec
    }

    /// Number of ranks.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        // Checked against limits::MAX_RANKS on construction.
        u32::try_from(self.spec.tokens_per_rank.len()).unwrap_or(u32::MAX)
    }

    /// Number of tokens of `rank`.
    ///
    /// # Panics
    /// When `rank` is not below [`Problem::num_ranks`].
    #[must_use]
    pub fn num_tokens(&self, rank: u32) -> u32 {
        self.spec.tokens_per_rank[rank as usize]
    }

    /// Largest number of tokens of a rank; windows are sized by it.
    #[must_use]
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }

    /// Tokens of all ranks.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.spec
            .tokens_per_rank
            .iter()
            .map(|&tokens| u64::from(tokens))
            .sum()
    }

    /// Width of a token.
    #[must_use]
    pub fn hidden(&self) -> u32 {
        self.spec.hidden
    }

    /// Width after the activation.
    #[must_use]
    pub fn intermediate(&self) -> u32 {
        self.spec.intermediate
    }

    /// Columns of GMM1's output: gate and up side by side, `2 * intermediate`.
    #[must_use]
    pub fn gate_up(&self) -> u32 {
        2 * self.spec.intermediate
    }

    /// Experts that live on each rank.
    #[must_use]
    pub fn experts_per_rank(&self) -> u32 {
        self.spec.experts_per_rank
    }

    /// Experts of all ranks.
    #[must_use]
    pub fn num_experts(&self) -> u32 {
        self.num_experts
    }

    /// Experts per token.
    #[must_use]
    pub fn top_k(&self) -> u32 {
        self.spec.top_k
    }

    /// Rows that a rank can receive.
    #[must_use]
    pub fn max_output_size(&self) -> u32 {
        self.spec.max_output_size
    }

    /// Type of the tokens.
    #[must_use]
    pub fn input_type(&self) -> FloatType {
        self.spec.input_type
    }

    /// Type of returned rows and of the output.
    #[must_use]
    pub fn output_type(&self) -> FloatType {
        self.spec.output_type
    }

    /// Routes of `rank`: one for each (token, top-k slot) pair.
    ///
    /// # Panics
    /// When `rank` is not below [`Problem::num_ranks`].
    #[must_use]
    pub fn num_routes(&self, rank: u32) -> u32 {
        self.num_tokens(rank) * self.top_k()
    }

    /// Largest number of routes of a rank.
    #[must_use]
    pub fn max_routes(&self) -> u32 {
        self.max_tokens * self.top_k()
    }

    /// Bytes of a packed row in a window: `hidden` int8 values and [`limits::PACKED_ROW_TAIL_BYTES`]
    /// that hold the fp32 row scale.
    #[must_use]
    pub fn packed_row_bytes(&self) -> u64 {
        u64::from(self.hidden()) + limits::PACKED_ROW_TAIL_BYTES
    }

    /// The same layer with other numbers of tokens.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn with_tokens(&self, tokens_per_rank: Vec<u32>) -> Result<Self, ProblemError> {
        Self::new(ProblemSpec {
            tokens_per_rank,
            ..self.spec.clone()
        })
    }

    fn check_bytes(&self) -> Result<(), ProblemError> {
        let weights = [
            u64::from(self.experts_per_rank()),
            u64::from(self.hidden()),
            u64::from(self.gate_up()),
        ];
        checked_product("bytes of a rank's gate and up weights", &weights)?;
        let rows = u64::from(self.max_output_size()).max(u64::from(self.max_routes()));
        let width = u64::from(self.hidden().max(self.gate_up()));
        checked_product("bytes of a rank's rows", &[rows, width, 4])?;
        checked_product(
            "bytes of all ranks' rows",
            &[u64::from(self.num_ranks()), rows, width, 4],
        )?;
        Ok(())
    }
}

fn check_sizes(spec: &ProblemSpec) -> Result<(), ProblemError> {
    within(
        "ranks",
        spec.tokens_per_rank.len() as u64,
        1,
        limits::MAX_RANKS.into(),
    )?;
    within(
        "hidden (K)",
        spec.hidden.into(),
        1,
        limits::MAX_HIDDEN.into(),
    )?;
    within(
        "intermediate (N / 2)",
        spec.intermediate.into(),
        1,
        limits::MAX_INTERMEDIATE.into(),
    )?;
    within(
        "experts per rank",
        spec.experts_per_rank.into(),
        1,
        limits::MAX_EXPERTS.into(),
    )?;
    within("top_k", spec.top_k.into(), 1, limits::MAX_TOP_K.into())?;
    within(
        "max_output_size",
        spec.max_output_size.into(),
        1,
        limits::MAX_ROWS.into(),
    )?;
    let align = u64::from(limits::WIDTH_ALIGN);
    aligned(
        "hidden (K)",
        spec.hidden.into(),
        align,
        " (a packed row is read in 32-byte units)",
    )?;
    aligned(
        "N (2 x intermediate)",
        2 * u64::from(spec.intermediate),
        2 * align,
        " (each half is read in 32-byte units)",
    )
}

fn check_experts(spec: &ProblemSpec) -> Result<u32, ProblemError> {
    let num_experts = spec.tokens_per_rank.len() as u64 * u64::from(spec.experts_per_rank);
    within(
        "experts of all ranks",
        num_experts,
        1,
        limits::MAX_EXPERTS.into(),
    )?;
    if u64::from(spec.top_k) > num_experts {
        return Err(ProblemError::TooLarge {
            name: "top_k",
            value: spec.top_k.into(),
            max: num_experts,
            reason: " (the number of experts of all ranks)",
        });
    }
    u32::try_from(num_experts).map_err(|_| ProblemError::Overflow {
        what: "experts of all ranks",
        factors: format!("{} x {}", spec.tokens_per_rank.len(), spec.experts_per_rank),
    })
}

fn check_rows(spec: &ProblemSpec, max_tokens: u32) -> Result<(), ProblemError> {
    let routes = u64::from(max_tokens) * u64::from(spec.top_k);
    let reason = " (row numbers are int32, less the count marker)";
    let total: u64 = spec.tokens_per_rank.iter().map(|&t| u64::from(t)).sum();
    let total_routes = total * u64::from(spec.top_k);
    if total_routes > limits::MAX_ROWS.into() {
        let (name, max) = (
            "routes of all ranks (tokens x top_k)",
            limits::MAX_ROWS.into(),
        );
        return Err(ProblemError::TooLarge {
            name,
            value: total_routes,
            max,
            reason,
        });
    }
    if u64::from(spec.max_output_size) < routes {
        return Err(ProblemError::MaxOutputTooSmall {
            value: spec.max_output_size.into(),
            min: routes,
            max_tokens,
            top_k: spec.top_k,
        });
    }
    Ok(())
}

fn within(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ProblemError> {
    if value < min {
        Err(ProblemError::TooSmall { name, value, min })
    } else if value > max {
        Err(ProblemError::TooLarge {
            name,
            value,
            max,
            reason: "",
        })
    } else {
        Ok(())
    }
}

fn aligned(
    name: &'static str,
    value: u64,
    multiple: u64,
    reason: &'static str,
) -> Result<(), ProblemError> {
    if value.is_multiple_of(multiple) {
        Ok(())
    } else {
        Err(ProblemError::Misaligned {
            name,
            value,
            multiple,
            reason,
        })
    }
}

/// Multiplies sizes, naming the product when it overflows.
///
/// # Errors
/// [`ProblemError::Overflow`] with the factors written out.
pub fn checked_product(what: &'static str, factors: &[u64]) -> Result<u64, ProblemError> {
    factors
        .iter()
        .try_fold(1u64, |product, &factor| product.checked_mul(factor))
        .ok_or_else(|| {
            let factors: Vec<String> = factors.iter().map(u64::to_string).collect();
            ProblemError::Overflow {
                what,
                factors: factors.join(" x "),
            }
        })
}
