//! A small seeded generator, so that data and routings stay the same on every machine and version.

/// SplitMix64: one 64-bit state, an odd step and a mixing function. Streams with different seeds are
/// independent for our purposes (test data), not for cryptography.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream that depends on every number of `path`, for example (seed, rank, expert): chunks can
    /// then be made in any order, or in parallel.
    #[must_use]
    pub fn for_path(path: &[u64]) -> Self {
        let mut rng = Self::new(0);
        for &number in path {
            rng.state ^= number;
            rng.state = rng.next_u64();
        }
        rng
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer in `0..bound`, by the high half of a product (bias below `bound / 2^64`).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no integer lies below 0");
        let product = u128::from(self.next_u64()) * u128::from(bound);
        // The high half of a 128-bit product fits 64 bits.
        (product >> 64) as u64
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit_f64(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
        let value = (self.next_u64() >> 11) as f64;
        value * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A standard normal number (sum of twelve uniforms less six: enough for test data, and exact).
    pub fn normal_f32(&mut self) -> f32 {
        let sum: f64 = (0..12).map(|_| self.unit_f64()).sum();
        #[expect(clippy::cast_possible_truncation, reason = "rounding to fp32 is meant")]
        let value = (sum - 6.0) as f32;
        value
    }

    /// Puts `items` in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            let other = usize::try_from(self.below(end as u64 + 1)).unwrap_or(end);
            items.swap(end, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.next_u64(), 0x910a_2dec_8902_5cc1);
        let mut other = Rng::for_path(&[1, 2]);
        assert_ne!(other.next_u64(), Rng::for_path(&[2, 1]).next_u64());
    }

    #[test]
    fn numbers_stay_below_their_bound_and_cover_it() {
        let mut rng = Rng::new(7);
        let mut seen = [0u32; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        assert!(
            (0..1000)
                .map(|_| rng.unit_f64())
                .all(|v| (0.0..1.0).contains(&v))
        );
    }
}
