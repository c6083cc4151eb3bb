//! Who sends which rows where: counts of all ranks, the numbering of received rows, and the **one**
//! rule that clips them.
//!
//! A source rank numbers its packed rows by global expert, then route order. A destination rank numbers
//! the rows it receives by local expert, then source rank, then the source's order; rows from
//! `max_output_size` on are dropped. Everything here follows from the counts alone, so every rank
//! computes the same answer.

use crate::problem::Problem;

/// Rows of every source rank for every global expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountTable {
    num_experts: usize,
    experts_per_rank: usize,
    max_output_size: u32,
    counts: Vec<u32>,
}

/// A run of rows that a destination takes from one source for one expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRun {
    /// First packed row on the source rank.
    pub source_row: u32,
    /// First row on the destination rank.
    pub row: u32,
    /// Rows that fit below `max_output_size`.
    pub num_rows: u32,
    /// Rows that do not.
    pub num_dropped: u32,
}

/// What [`crate::slot::RouteMetadata`] points to, on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMetadata {
    /// `[num_ranks, experts_per_rank]`.
    pub pre_sum: Vec<i32>,
    /// `[num_ranks, experts_per_rank]`.
    pub cumsum: Vec<i32>,
    /// `[experts_per_rank + 1]`.
    pub expert_offset: Vec<i32>,
    /// `[experts_per_rank]`.
    pub expert_token_nums: Vec<i32>,
    /// `[num_experts]`.
    pub kept_end: Vec<i32>,
}

impl CountTable {
    /// The metadata of `rank`.
    #[must_use]
    pub fn metadata(&self, rank: u32) -> HostMetadata {
        let first = rank as usize * self.experts_per_rank;
        let experts = first..first + self.experts_per_rank;
        let signed = |values: Vec<u32>| values.into_iter().map(u32::cast_signed).collect();
        let mut sums = vec![0i32; self.experts_per_rank];
        let (mut pre_sum, mut cumsum) = (Vec::new(), Vec::new());
        for source in 0..self.num_ranks() {
            pre_sum.extend_from_slice(&self.source_offsets(source)[experts.clone()]);
            for (sum, &count) in sums
                .iter_mut()
                .zip(&self.of_source(source)[experts.clone()])
            {
                *sum += count.cast_signed();
            }
            cumsum.extend_from_slice(&sums);
        }
        HostMetadata {
            pre_sum: signed(pre_sum),
            cumsum,
            expert_offset: signed(self.expert_offsets(rank)),
            expert_token_nums: sums,
            kept_end: signed(self.kept_ends(rank)),
        }
    }

    /// Counts of all ranks from their expert ids; -1 counts nowhere.
    #[must_use]
    pub fn from_ids<'a>(
        problem: &Problem,
        ids_of_ranks: impl IntoIterator<Item = &'a [i32]>,
    ) -> Self {
        let num_experts = problem.num_experts() as usize;
        let mut counts = Vec::new();
        for ids in ids_of_ranks {
            let mut row = vec![0; num_experts];
            for expert in ids.iter().filter_map(|&id| usize::try_from(id).ok()) {
                row[expert] += 1;
            }
            counts.extend(row);
        }
        Self::new(problem, counts)
    }

    /// The table with `counts` as `[num_ranks, num_experts]`.
    ///
    /// # Panics
    /// When the length is another.
    #[must_use]
    pub fn new(problem: &Problem, counts: Vec<u32>) -> Self {
        let num_experts = problem.num_experts() as usize;
        assert_eq!(
            counts.len(),
            problem.num_ranks() as usize * num_experts,
            "count table"
        );
        Self {
            num_experts,
            experts_per_rank: problem.experts_per_rank() as usize,
            max_output_size: problem.max_output_size(),
            counts,
        }
    }

    /// Counts of one source rank, `[num_experts]`.
    #[must_use]
    pub fn of_source(&self, source: u32) -> &[u32] {
        let start = source as usize * self.num_experts;
        &self.counts[start..start + self.num_experts]
    }

    /// Number of ranks.
    #[must_use]
    pub fn num_ranks(&self) -> u32 {
        u32::try_from(self.counts.len() / self.num_experts).unwrap_or(u32::MAX)
    }

    /// First packed row on `source` of each global expert, and the total: `[num_experts + 1]`.
    #[must_use]
    pub fn source_offsets(&self, source: u32) -> Vec<u32> {
        prefix_sums(self.of_source(source).iter().copied())
    }

    /// What rank `rank` takes: `[experts_per_rank][num_ranks]` runs, in the order of its rows.
    #[must_use]
    pub fn runs(&self, rank: u32) -> Vec<Vec<RowRun>> {
        let offsets: Vec<Vec<u32>> = (0..self.num_ranks())
            .map(|source| self.source_offsets(source))
            .collect();
        let first_expert = rank as usize * self.experts_per_rank;
        let mut next_row = 0u32;
        (first_expert..first_expert + self.experts_per_rank)
            .map(|expert| {
                let run = |offsets: &Vec<u32>| {
                    let count = offsets[expert + 1] - offsets[expert];
                    let num_rows = count.min(self.max_output_size - next_row);
                    let row = next_row;
                    next_row += num_rows;
                    RowRun {
                        source_row: offsets[expert],
                        row,
                        num_rows,
                        num_dropped: count - num_rows,
                    }
                };
                offsets.iter().map(run).collect()
            })
            .collect()
    }

    /// First row of each local expert of `rank`, and the total: `[experts_per_rank + 1]`.
    #[must_use]
    pub fn expert_offsets(&self, rank: u32) -> Vec<u32> {
        let rows = self
            .runs(rank)
            .into_iter()
            .map(|runs| runs.iter().map(|r| r.num_rows).sum());
        prefix_sums(rows)
    }

    /// For each global expert the end of the packed rows of `source` that the expert's rank kept:
    /// `[num_experts]`. Its packed rows from there on were dropped.
    #[must_use]
    pub fn kept_ends(&self, source: u32) -> Vec<u32> {
        (0..self.num_ranks())
            .flat_map(|rank| self.runs(rank))
            .map(|runs| runs[source as usize].source_row + runs[source as usize].num_rows)
            .collect()
    }

    /// Rows that the capacity of `rank` dropped: `[num_ranks, experts_per_rank]` by source rank and
    /// local expert.
    #[must_use]
    pub fn dropped(&self, rank: u32) -> Vec<u32> {
        let runs = self.runs(rank);
        (0..self.num_ranks() as usize)
            .flat_map(|source| runs.iter().map(move |runs| runs[source].num_dropped))
            .collect()
    }

    /// Rows that all ranks take.
    #[must_use]
    pub fn total_kept(&self) -> u64 {
        let sent: u64 = self.counts.iter().copied().map(u64::from).sum();
        sent - self.total_dropped()
    }

    /// Rows dropped by all ranks.
    #[must_use]
    pub fn total_dropped(&self) -> u64 {
        (0..self.num_ranks())
            .flat_map(|rank| self.dropped(rank))
            .map(u64::from)
            .sum()
    }
}

fn prefix_sums(counts: impl Iterator<Item = u32>) -> Vec<u32> {
    std::iter::once(0)
        .chain(counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{FloatType, ProblemSpec};

    fn table(counts: Vec<u32>, max_output_size: u32) -> CountTable {
        let problem = ProblemSpec {
            tokens_per_rank: vec![4, 4],
            hidden: 32,
            intermediate: 32,
            experts_per_rank: 2,
            top_k: 1,
            max_output_size,
            input_type: FloatType::F16,
            output_type: FloatType::F16,
        };
        CountTable::new(&problem.build().unwrap(), counts)
    }

    #[test]
    fn rows_are_numbered_by_expert_then_source() {
        // Source 0 sends 1, 2, 0, 1 rows to experts 0..4; source 1 sends 3, 0, 1, 0.
        let table = table(vec![1, 2, 0, 1, 3, 0, 1, 0], 8);
        let run = |source_row, row, num_rows| RowRun {
            source_row,
            row,
            num_rows,
            num_dropped: 0,
        };
        assert_eq!(
            table.runs(0),
            [[run(0, 0, 1), run(0, 1, 3)], [run(1, 4, 2), run(3, 6, 0)]]
        );
        assert_eq!(
            table.runs(1),
            [[run(3, 0, 0), run(3, 0, 1)], [run(3, 1, 1), run(4, 2, 0)]]
        );
        assert_eq!(table.expert_offsets(0), [0, 4, 6]);
        assert_eq!(table.kept_ends(0), [1, 3, 3, 4]);
        assert_eq!(table.total_dropped(), 0);
    }

    #[test]
    fn the_clip_cuts_the_last_rows_and_counts_them() {
        let table = table(vec![1, 2, 0, 1, 3, 1, 0, 0], 5);
        // Rank 0 would receive 7 rows: expert 1 loses one of source 0 and all of source 1.
        assert_eq!(table.expert_offsets(0), [0, 4, 5]);
        assert_eq!(table.dropped(0), [0, 1, 0, 1]);
        assert_eq!(table.kept_ends(0), [1, 2, 3, 4]);
        assert_eq!(table.kept_ends(1), [3, 3, 4, 4]);
        assert_eq!(table.total_dropped(), 2);
    }
}
