//! Sorting of (value, index) pairs as the vector core does it: blocks of 32, then merges of up to four
//! sorted lists. Descending; equal values keep the order of their lists and of their indices.

/// A value and what it belongs to: eight bytes, as they lie in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// Sort key.
    pub value: f32,
    /// Payload.
    pub index: u32,
}

/// Elements of a block.
pub const BLOCK: usize = 32;

/// Sorts one block: descending by value, equal values ascending by index.
pub fn sort_block(pairs: &mut [Pair]) {
    pairs.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.index.cmp(&b.index)));
}

/// Merges sorted lists into `merged`; equal values come from the earlier list first. Ends when a list is
/// used up if `stop_early`. The number of pairs taken from each.
pub fn merge(lists: &[&[Pair]], stop_early: bool, merged: &mut Vec<Pair>) -> [usize; 4] {
    let mut taken = [0; 4];
    loop {
        let mut best: Option<usize> = None;
        for (list, pairs) in lists.iter().enumerate() {
            let Some(pair) = pairs.get(taken[list]) else {
                if stop_early {
                    return taken;
                }
                continue;
            };
            if best.is_none_or(|best| pair.value > lists[best][taken[best]].value) {
                best = Some(list);
            }
        }
        let Some(list) = best else {
            return taken;
        };
        merged.push(lists[list][taken[list]]);
        taken[list] += 1;
    }
}
