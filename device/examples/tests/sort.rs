//! Sorting and gathering, against sorting in plain code.

mod common;

use common::{NO_VIEW, device};
use megamoe_device::{Device, VirtualDevice, download, upload, view};
use megamoe_device_examples::{ConformanceArgs, SORT, run};
use moe_core::rng::Rng;

/// Few different keys, so that there are ties; signed zeros and infinities among them.
fn keys(seed: u64, len: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let few = [0.0, 1.0, -3.0, 7.5, f32::INFINITY, f32::NEG_INFINITY, 1e-30];
    (0..len)
        .map(|_| few[rng.below(few.len() as u64) as usize])
        .collect()
}

fn sort(device: &VirtualDevice, op: u32, keys: &[f32]) -> Vec<u32> {
    let len = keys.len();
    let index: Vec<u32> = (100..100 + len as u32).collect();
    let out = device.alloc(8 * len as u64 + 64).unwrap();
    let (keys, index) = (
        upload(device, keys).unwrap(),
        upload(device, &index).unwrap(),
    );
    let args = ConformanceArgs {
        a: view(keys.as_ref()),
        b: view(index.as_ref()),
        out: view(out.as_ref()),
        scalar: 0,
        op,
        dtype: 0,
        rows: 1,
        cols: len as u32,
        stride: len as u32,
        mode: 0,
    };
    assert_ne!(args.a, NO_VIEW);
    // SAFETY: the kernel takes these arguments; the result has room for pairs and four counts.
    unsafe { run(device, &SORT, 1, &args).unwrap() };
    download(out.as_ref(), 2 * len + 4).unwrap()
}

/// Descending by key, equal keys by index: as value bits and index in turn.
fn naive(keys: &[f32], first_index: u32) -> Vec<u32> {
    let mut pairs: Vec<(f32, u32)> = keys.iter().copied().zip(first_index..).collect();
    pairs.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap().then(a.1.cmp(&b.1)));
    pairs
        .into_iter()
        .flat_map(|(key, index)| [key.to_bits(), index])
        .collect()
}

#[test]
fn blocks_of_32_are_sorted_each() {
    let device = device();
    for (seed, len) in [(1, 32), (2, 64), (3, 1024)] {
        let keys = keys(seed, len);
        let out = sort(&device, 0, &keys);
        let blocks = keys.chunks(32).zip((100..).step_by(32));
        let want: Vec<u32> = blocks
            .flat_map(|(block, first)| naive(block, first))
            .collect();
        assert_eq!(out[..2 * len], want);
    }
}

#[test]
fn four_blocks_of_a_tile_merge() {
    let device = device();
    for (seed, len) in [(1, 128), (2, 512), (3, 1024)] {
        let keys = keys(seed, len);
        let out = sort(&device, 1, &keys);
        let groups = keys.chunks(128).zip((100..).step_by(128));
        let want: Vec<u32> = groups
            .flat_map(|(group, first)| naive(group, first))
            .collect();
        assert_eq!(out[..2 * len], want);
    }
}

/// Lists of two and of three tiles, then the indices alone: the order is that of one stable sort.
#[test]
fn lists_of_different_lengths_merge() {
    let device = device();
    for seed in 0..20 {
        let keys = keys(seed, 128);
        let out = sort(&device, 2, &keys);
        let want: Vec<u32> = naive(&keys, 100).into_iter().skip(1).step_by(2).collect();
        assert_eq!(out[..128], want, "seed {seed}");
        assert_eq!(out[128..131], [32, 64, 32]);
    }
}

#[test]
fn a_merge_can_stop_when_a_list_is_used_up() {
    let device = device();
    for seed in 0..20 {
        let keys = keys(seed, 128);
        let out = sort(&device, 3, &keys);
        let taken = &out[128..131];
        let lists = [(0u32, 32u32), (32, 64), (96, 32)];
        let used_up = (0..3).filter(|&i| taken[i] == lists[i].1).count();
        assert_eq!(used_up, 1, "seed {seed}: {taken:?}");
        // What was taken is the start of the whole order.
        let total: u32 = taken.iter().sum();
        let want: Vec<u32> = naive(&keys, 100).into_iter().skip(1).step_by(2).collect();
        assert_eq!(out[..total as usize], want[..total as usize], "seed {seed}");
    }
}
