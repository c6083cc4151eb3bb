//! The array files of a case: `rank{r}_{array}.bin`, little endian, no header.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytemuck::Pod;
use moe_core::{InputSizes, Problem, RankInputs, RankWeights};

use super::CaseError;

/// Array of wanted outputs.
pub const EXPECTED_OUT: &str = "expected_out";
/// Array of a run's outputs.
pub const OUT: &str = "out";

/// Path of an array of a rank.
#[must_use]
pub fn path(dir: &Path, rank: u32, array: &str) -> PathBuf {
    dir.join(format!("rank{rank}_{array}.bin"))
}

/// Reads the inputs of every rank.
///
/// # Errors
/// [`CaseError`] names the file that is missing, too short or too long.
pub fn read_inputs(dir: &Path, problem: &Problem) -> Result<Vec<RankInputs>, CaseError> {
    (0..problem.num_ranks())
        .map(|rank| read_rank(dir, problem, rank))
        .collect()
}

/// Reads the inputs of one rank.
///
/// # Errors
/// [`CaseError`] names the file that is missing, too short or too long.
pub fn read_rank(dir: &Path, problem: &Problem, rank: u32) -> Result<RankInputs, CaseError> {
    let sizes = InputSizes::of(problem, rank);
    let file = |array| path(dir, rank, array);
    Ok(RankInputs {
        x: read(&file("x"), sizes.x)?,
        topk_ids: read_ids(dir, problem, rank)?,
        probs: read(&file("probs"), sizes.routes)?,
        weights: Arc::new(RankWeights {
            weight1: read(&file("weight1"), sizes.experts * sizes.weight1_per_expert)?,
            scale1: read(&file("scale1"), sizes.scale1)?,
            weight2: read(&file("weight2"), sizes.experts * sizes.weight2_per_expert)?,
            scale2: read(&file("scale2"), sizes.scale2)?,
        }),
    })
}

/// Reads the expert ids of a rank, `[num_tokens, top_k]`.
///
/// # Errors
/// [`CaseError`] names the file that is missing, too short or too long.
pub fn read_ids(dir: &Path, problem: &Problem, rank: u32) -> Result<Vec<i32>, CaseError> {
    read(
        &path(dir, rank, "expert_idx"),
        problem.num_routes(rank).into(),
    )
}

/// Reads an output array of every rank, `[num_tokens, hidden]` each; `None` when rank 0 has no such file.
///
/// # Errors
/// [`CaseError`] names the file that is missing, too short or too long.
pub fn read_outputs(
    dir: &Path,
    problem: &Problem,
    array: &str,
) -> Result<Option<Vec<Vec<u16>>>, CaseError> {
    if !path(dir, 0, array).exists() {
        return Ok(None);
    }
    (0..problem.num_ranks())
        .map(|rank| read(&path(dir, rank, array), InputSizes::of(problem, rank).x))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Writes the inputs of a rank.
///
/// # Errors
/// [`CaseError::Io`] names the file.
pub fn write_inputs(dir: &Path, rank: u32, inputs: &RankInputs) -> Result<(), CaseError> {
    let file = |array| path(dir, rank, array);
    let weights = &inputs.weights;
    write(&file("x"), &inputs.x)?;
    write(&file("expert_idx"), &inputs.topk_ids)?;
    write(&file("probs"), &inputs.probs)?;
    write(&file("weight1"), &weights.weight1)?;
    write(&file("scale1"), &weights.scale1)?;
    write(&file("weight2"), &weights.weight2)?;
    write(&file("scale2"), &weights.scale2)
}

/// Writes an output array of every rank.
///
/// # Errors
/// [`CaseError::Io`] names the file.
pub fn write_outputs(dir: &Path, array: &str, outputs: &[Vec<u16>]) -> Result<(), CaseError> {
    (0..)
        .zip(outputs)
        .try_for_each(|(rank, output)| write(&path(dir, rank, array), output))
}

fn read<T: Pod>(path: &Path, elements: u64) -> Result<Vec<T>, CaseError> {
    let io = |error| CaseError::io(path, error);
    let mut file = File::open(path).map_err(io)?;
    let got = file.metadata().map_err(io)?.len();
    let want = elements * size_of::<T>() as u64;
    if got != want {
        return Err(CaseError::FileSize {
            path: path.to_owned(),
            got,
            want,
        });
    }
    let mut values = vec![T::zeroed(); elements as usize];
    file.read_exact(bytemuck::cast_slice_mut(&mut values))
        .map_err(io)?;
    Ok(values)
}

fn write<T: Pod>(path: &Path, values: &[T]) -> Result<(), CaseError> {
    let io = |error| CaseError::io(path, error);
    let mut file = BufWriter::new(File::create(path).map_err(io)?);
    file.write_all(bytemuck::cast_slice(values)).map_err(io)?;
    file.flush().map_err(io)
}
