//! Which experts each token goes to: checks, generators, and measures of balance.

use std::fmt;
use std::str::FromStr;

use crate::problem::Problem;
use crate::rng::Rng;

/// A route or weight that can't be used, and where it stands.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RoutingError {
    /// A list has the wrong length.
    #[error("rank {rank}: {name} has {got} values, but tokens x top_k = {want} are needed")]
    Length {
        /// Rank.
        rank: u32,
        /// Which list.
        name: &'static str,
        /// Its length.
        got: usize,
        /// The length needed.
        want: usize,
    },
    /// An expert id that names no expert.
    #[error(
        "rank {rank}, token {token}, slot {slot}: expert id {id} is out of range \
         (0..{num_experts}, or -1 for no expert)"
    )]
    ExpertId {
        /// Rank.
        rank: u32,
        /// Token on the rank.
        token: usize,
        /// Slot of top-k.
        slot: usize,
        /// The id.
        id: i32,
        /// Experts of all ranks.
        num_experts: u32,
    },
    /// A weight that is NaN or infinite.
    #[error("rank {rank}, token {token}, slot {slot}: prob is {prob}, but must be finite")]
    Prob {
        /// Rank.
        rank: u32,
        /// Token on the rank.
        token: usize,
        /// Slot of top-k.
        slot: usize,
        /// The weight.
        prob: f32,
    },
    /// A description of a routing that can't be read.
    #[error("routing {text:?}: {reason}")]
    Syntax {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Checks the expert ids of `rank`: `[num_tokens, top_k]`, each -1 or a global expert.
///
/// # Errors
/// [`RoutingError`] names the first bad place.
pub fn check_ids(problem: &Problem, rank: u32, ids: &[i32]) -> Result<(), RoutingError> {
    check_length(problem, rank, "expert_idx", ids.len())?;
    let num_experts = problem.num_experts();
    let legal = |id: i32| id == -1 || u32::try_from(id).is_ok_and(|id| id < num_experts);
    match ids.iter().position(|&id| !legal(id)) {
        None => Ok(()),
        Some(place) => {
            let (token, slot) = token_and_slot(problem, place);
            Err(RoutingError::ExpertId {
                rank,
                token,
                slot,
                id: ids[place],
                num_experts,
            })
        }
    }
}

/// Checks the weights of `rank`: `[num_tokens, top_k]`, all finite.
///
/// # Errors
/// [`RoutingError`] names the first bad place.
pub fn check_probs(problem: &Problem, rank: u32, probs: &[f32]) -> Result<(), RoutingError> {
    check_length(problem, rank, "probs", probs.len())?;
    match probs.iter().position(|prob| !prob.is_finite()) {
        None => Ok(()),
        Some(place) => {
            let (token, slot) = token_and_slot(problem, place);
            Err(RoutingError::Prob {
                rank,
                token,
                slot,
                prob: probs[place],
            })
        }
    }
}

fn check_length(
    problem: &Problem,
    rank: u32,
    name: &'static str,
    got: usize,
) -> Result<(), RoutingError> {
    let want = problem.num_routes(rank) as usize;
    if got == want {
        Ok(())
    } else {
        Err(RoutingError::Length {
            rank,
            name,
            got,
            want,
        })
    }
}

fn token_and_slot(problem: &Problem, place: usize) -> (usize, usize) {
    let top_k = problem.top_k() as usize;
    (place / top_k, place % top_k)
}

/// How a generator chooses experts. A token never names an expert twice.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutingKind {
    /// The published data's rule: route `j` of the world's token `g` goes to expert
    /// `(g * top_k + j) mod num_experts`. It is perfectly balanced.
    Balanced,
    /// Every set of `top_k` experts is equally likely.
    Uniform,
    /// Popularity falls as `rank^-s`; which expert is how popular is shuffled by the seed.
    Zipf(f64),
    /// Only the first `n` experts are ever chosen, uniformly.
    Few(u32),
}

impl fmt::Display for RoutingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced => f.write_str("balanced"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Self::Few(count) => write!(f, "few:{count}"),
        }
    }
}

impl FromStr for RoutingKind {
    type Err = RoutingError;

    fn from_str(text: &str) -> Result<Self, RoutingError> {
        let syntax = |reason: String| RoutingError::Syntax {
            text: text.to_owned(),
            reason,
        };
        match text.split_once(':') {
            None if text == "balanced" => Ok(Self::Balanced),
            None if text == "uniform" => Ok(Self::Uniform),
            Some(("zipf", exponent)) => match exponent.parse::<f64>() {
                Ok(value) if (0.0..=8.0).contains(&value) => Ok(Self::Zipf(value)),
                _ => Err(syntax(format!(
                    "{exponent:?} is not an exponent from 0 to 8"
                ))),
            },
            Some(("few", count)) => match count.parse::<u32>() {
                Ok(value) if value > 0 => Ok(Self::Few(value)),
                _ => Err(syntax(format!(
                    "{count:?} is not a positive number of experts"
                ))),
            },
            _ => Err(syntax("unknown kind".to_owned())),
        }
    }
}

impl RoutingKind {
    /// Expert ids of every rank, `[num_tokens, top_k]` each.
    ///
    /// # Errors
    /// [`RoutingError::Syntax`] when fewer experts may be chosen than a token needs.
    pub fn generate(&self, problem: &Problem, seed: u64) -> Result<Vec<Vec<i32>>, RoutingError> {
        let num_experts = problem.num_experts();
        let choosable = match self {
            Self::Few(count) => (*count).min(num_experts),
            _ => num_experts,
        };
        if choosable < problem.top_k() {
            let reason = format!(
                "top_k = {} different experts can't be chosen",
                problem.top_k()
            );
            return Err(RoutingError::Syntax {
                text: self.to_string(),
                reason,
            });
        }
        let popularity = self.popularity(choosable, seed);
        let mut first_token = 0;
        let mut ranks = Vec::new();
        for rank in 0..problem.num_ranks() {
            ranks.push(match self {
                Self::Balanced => round_robin(problem, rank, first_token),
                _ => weighted(problem, rank, seed, &popularity),
            });
            first_token += u64::from(problem.num_tokens(rank));
        }
        Ok(ranks)
    }

    /// Logarithm of each choosable expert's relative popularity.
    fn popularity(&self, choosable: u32, seed: u64) -> Vec<f64> {
        let exponent = if let Self::Zipf(exponent) = self {
            *exponent
        } else {
            0.0
        };
        let mut popularity: Vec<f64> = (1..=choosable)
            .map(|place| -exponent * f64::from(place).ln())
            .collect();
        Rng::for_path(&[seed, PLACEMENT_STREAM]).shuffle(&mut popularity);
        popularity
    }
}

/// Distinguishes the stream that places popular experts from those that choose routes.
const PLACEMENT_STREAM: u64 = 0x706c_6163;
/// Distinguishes the streams that choose routes.
const ROUTE_STREAM: u64 = 0x726f_7574;

fn round_robin(problem: &Problem, rank: u32, first_token: u64) -> Vec<i32> {
    let first_route = first_token * u64::from(problem.top_k());
    let num_experts = u64::from(problem.num_experts());
    (0..u64::from(problem.num_routes(rank)))
        .map(|route| expert_id((first_route + route) % num_experts))
        .collect()
}

/// Draws without replacement by the Gumbel trick: the `top_k` largest of log-popularity plus noise.
fn weighted(problem: &Problem, rank: u32, seed: u64, popularity: &[f64]) -> Vec<i32> {
    let top_k = problem.top_k() as usize;
    let mut ids = Vec::with_capacity(problem.num_routes(rank) as usize);
    let mut keys: Vec<(f64, u64)> = Vec::with_capacity(popularity.len());
    for token in 0..problem.num_tokens(rank) {
        let mut rng = Rng::for_path(&[seed, ROUTE_STREAM, rank.into(), token.into()]);
        keys.clear();
        for (expert, log_weight) in (0u64..).zip(popularity) {
            // Never 0 or 1, whose logarithms are not finite.
            let uniform = rng.unit_f64().clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
            keys.push((log_weight - (-uniform.ln()).ln(), expert));
        }
        if top_k < keys.len() {
            keys.select_nth_unstable_by(top_k - 1, |a, b| b.0.total_cmp(&a.0));
        }
        keys[..top_k].sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        ids.extend(keys[..top_k].iter().map(|&(_, expert)| expert_id(expert)));
    }
    ids
}

fn expert_id(expert: u64) -> i32 {
    // Experts are below limits::MAX_EXPERTS.
    i32::try_from(expert).unwrap_or(i32::MAX)
}

/// Smallest, mean and largest of some counts.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: u64,
    /// `max / mean`, 1 when perfectly even or when all are zero.
    pub imbalance: f64,
}

impl Spread {
    /// The spread of `counts`.
    #[must_use]
    pub fn of(counts: &[u64]) -> Self {
        let min = counts.iter().copied().min().unwrap_or(0);
        let max = counts.iter().copied().max().unwrap_or(0);
        let total: u64 = counts.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "a report rounds anyway")]
        let (mean, top) = (total as f64 / counts.len().max(1) as f64, max as f64);
        Self {
            min,
            mean,
            max,
            imbalance: if total == 0 { 1.0 } else { top / mean },
        }
    }
}

/// How a routing loads the experts and the ranks.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Load {
    /// Rows of each global expert.
    pub rows_per_expert: Vec<u64>,
    /// Rows that each rank receives, before clipping.
    pub rows_per_rank: Vec<u64>,
}

impl Load {
    /// Counts the routes of all ranks; -1 counts nowhere.
    #[must_use]
    pub fn of<'a>(problem: &Problem, ids: impl IntoIterator<Item = &'a [i32]>) -> Self {
        let mut rows_per_expert = vec![0; problem.num_experts() as usize];
        for &id in ids.into_iter().flatten() {
            if let Ok(expert) = usize::try_from(id) {
                rows_per_expert[expert] += 1;
            }
        }
        let per_rank = problem.experts_per_rank() as usize;
        let rows_per_rank = rows_per_expert
            .chunks(per_rank)
            .map(|rows| rows.iter().sum())
            .collect();
        Self {
            rows_per_expert,
            rows_per_rank,
        }
    }

    /// Spread over experts.
    #[must_use]
    pub fn experts(&self) -> Spread {
        Spread::of(&self.rows_per_expert)
    }

    /// Spread over ranks.
    #[must_use]
    pub fn ranks(&self) -> Spread {
        Spread::of(&self.rows_per_rank)
    }
}
