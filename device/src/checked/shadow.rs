//! What is known of every byte of a memory: who wrote it last, and who read it since.

use std::collections::BTreeMap;
use std::ops::Range;

/// One instruction's touch of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// Who: a core's agent.
    pub(crate) agent: u32,
    /// When, by that agent's clock.
    pub(crate) time: u32,
    /// Where in the kernel.
    pub(crate) site: u32,
    /// In which launch of the operator; 0 for the host.
    pub(crate) launch: u32,
    /// A scalar write that its core's cache has not written back.
    pub(crate) is_cached: bool,
}

impl Access {
    /// By the host, between launches.
    pub(crate) const HOST: Self = Self {
        agent: u32::MAX,
        time: 0,
        site: 0,
        launch: 0,
        is_cached: false,
    };

    pub(crate) fn is_host(&self) -> bool {
        self.agent == u32::MAX
    }
}

/// What is known of a run of bytes.
#[derive(Clone, Debug, Default)]
struct Cell {
    end: u64,
    write: Option<Access>,
    /// At most one of each agent: its last.
    reads: Vec<Access>,
}

/// An earlier access that a new one meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// Nobody wrote these bytes.
    Nothing,
    /// The last write.
    Write(Access),
    /// A read since then; only writes meet reads.
    Read(Access),
}

/// The bytes of one memory, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow(BTreeMap<u64, Cell>);

impl Shadow {
    /// Lets cells begin and end at `at`.
    fn split(&mut self, at: u64) {
        let Some((_, cell)) = self.0.range_mut(..at).next_back() else {
            return;
        };
        if cell.end > at {
            let rest = cell.clone();
            cell.end = at;
            self.0.insert(at, rest);
        }
    }

    /// Notes a read; tells of every piece what it meets.
    pub(crate) fn read(
        &mut self,
        range: Range<u64>,
        access: Access,
        mut meets: impl FnMut(Range<u64>, Met),
    ) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let mut at = range.start;
        for (&start, cell) in self.0.range_mut(range.clone()) {
            if start > at {
                meets(at..start, Met::Nothing);
            }
            at = cell.end;
            match cell.write {
                Some(write) => meets(start..cell.end, Met::Write(write)),
                None => meets(start..cell.end, Met::Nothing),
            }
            match cell
                .reads
                .iter_mut()
                .find(|read| read.agent == access.agent)
            {
                Some(read) => *read = access,
                None => cell.reads.push(access),
            }
        }
        if at < range.end {
            meets(at..range.end, Met::Nothing);
        }
    }

    /// Notes a write; tells of every piece what it meets.
    pub(crate) fn write(
        &mut self,
        range: Range<u64>,
        access: Access,
        mut meets: impl FnMut(Range<u64>, Met),
    ) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        let mut old = Vec::new();
        for (&start, cell) in self.0.range(range.clone()) {
            if let Some(write) = cell.write {
                meets(start..cell.end, Met::Write(write));
            }
            for read in &cell.reads {
                meets(start..cell.end, Met::Read(*read));
            }
            old.push(start);
        }
        for start in old {
            self.0.remove(&start);
        }
        self.0.insert(
            range.start,
            Cell {
                end: range.end,
                write: Some(access),
                reads: Vec::new(),
            },
        );
    }

    /// The last write of a byte.
    pub(crate) fn last_write(&self, at: u64) -> Option<Access> {
        let (_, cell) = self.0.range(..=at).next_back()?;
        if cell.end > at { cell.write } else { None }
    }

    /// Changes the last writes of a range.
    pub(crate) fn change_writes(&mut self, range: Range<u64>, mut change: impl FnMut(&mut Access)) {
        self.split(range.start);
        self.split(range.end);
        for cell in self.0.range_mut(range).map(|(_, cell)| cell) {
            if let Some(write) = &mut cell.write {
                change(write);
            }
        }
    }

    /// Forgets a range.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        let old: Vec<u64> = self.0.range(range).map(|(&start, _)| start).collect();
        for start in old {
            self.0.remove(&start);
        }
    }

    /// Bytes that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        let cells = self.0.len() * (size_of::<Cell>() + size_of::<u64>());
        let reads = self.0.values().map(|cell| cell.reads.capacity());
        cells + reads.sum::<usize>() * size_of::<Access>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(agent: u32, time: u32) -> Access {
        Access {
            agent,
            time,
            site: 0,
            launch: 1,
            is_cached: false,
        }
    }

    fn met(act: impl FnOnce(&mut dyn FnMut(Range<u64>, Met))) -> Vec<(Range<u64>, Met)> {
        let mut all = Vec::new();
        act(&mut |range, met| all.push((range, met)));
        all
    }

    #[test]
    fn a_read_meets_the_pieces_of_what_was_written() {
        let mut shadow = Shadow::default();
        shadow.write(10..20, access(1, 1), |_, _| panic!("nothing was there"));
        shadow.write(15..17, access(2, 1), |range, met| {
            assert_eq!((range, met), (15..17, Met::Write(access(1, 1))));
        });
        let all = met(|f| shadow.read(8..22, access(3, 1), f));
        let want = [
            (8..10, Met::Nothing),
            (10..15, Met::Write(access(1, 1))),
            (15..17, Met::Write(access(2, 1))),
            (17..20, Met::Write(access(1, 1))),
            (20..22, Met::Nothing),
        ];
        assert_eq!(all, want);
    }

    #[test]
    fn a_write_meets_the_last_read_of_each_agent_and_forgets_them() {
        let mut shadow = Shadow::default();
        shadow.write(0..8, access(1, 1), |_, _| ());
        shadow.read(0..4, access(2, 1), |_, _| ());
        shadow.read(0..4, access(2, 5), |_, _| ());
        let all = met(|f| shadow.write(0..8, access(3, 1), f));
        let want = [
            (0..4, Met::Write(access(1, 1))),
            (0..4, Met::Read(access(2, 5))),
            (4..8, Met::Write(access(1, 1))),
        ];
        assert_eq!(all, want);
        let all = met(|f| shadow.write(0..8, access(3, 2), f));
        assert_eq!(all, [(0..8, Met::Write(access(3, 1)))]);
        shadow.forget(2..4);
        assert_eq!(shadow.last_write(1), Some(access(3, 2)));
        assert_eq!(shadow.last_write(3), None);
    }
}
