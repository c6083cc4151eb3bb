//! Vector clocks over the pipes of all cores of all ranks.

/// Agents of a core whose work is ordered: its pipes, and the scalar unit's writes apart from its reads.
pub(crate) const AGENTS: usize = 8;

/// What works on its own in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    /// The scalar unit: its reads, and its waits.
    S = 0,
    V = 1,
    M = 2,
    Mte1 = 3,
    Mte2 = 4,
    Mte3 = 5,
    Fix = 6,
    /// Writes of the scalar unit, which reach a memory later than the next instruction is issued.
    ScalarWrites = 7,
}

impl Agent {
    /// Those that are pipes.
    pub(crate) const PIPES: [Self; 7] = [
        Self::S,
        Self::V,
        Self::M,
        Self::Mte1,
        Self::Mte2,
        Self::Mte3,
        Self::Fix,
    ];

    /// Whether it is the scalar unit.
    pub(crate) fn is_scalar(self) -> bool {
        matches!(self, Self::S | Self::ScalarWrites)
    }

    pub(crate) fn of_pipe(pipe: usize) -> Option<Self> {
        Self::PIPES.get(pipe).copied()
    }

    /// Name of the pipe it belongs to.
    pub(crate) fn pipe_name(self) -> &'static str {
        ["S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "S"][self as usize]
    }
}

/// How far each agent is known to have come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    pub(crate) fn get(&self, agent: u32) -> u32 {
        self.0.get(agent as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, agent: u32, time: u32) {
        let place = agent as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        self.0[place] = time;
    }

    /// Knows from now on what the other knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_takes_the_later_of_each() {
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.set(1, 5);
        b.set(1, 3);
        b.set(4, 2);
        a.join(&b);
        assert_eq!((a.get(1), a.get(4), a.get(9)), (5, 2, 0));
    }
}
