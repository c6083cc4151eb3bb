//! Layouts: nothing overlaps, nothing overflows, and what does not fit says so.

use megamoe_window::layout::{COUNTS_PER_LINE, LINE_BYTES, Region};
use megamoe_window::{WindowLayout, WindowMap, WindowSizeError};
use moe_core::limits::{MAX_EXPERTS, MAX_RANKS, MAX_ROWS};
use moe_core::{FloatType, Gm, Problem, ProblemSpec};
use proptest::prelude::*;

fn any_problem() -> impl Strategy<Value = Problem> {
    let ranks = prop_oneof![1..=16u32, 1..=MAX_RANKS];
    (
        ranks,
        any::<u32>(),
        any::<u32>(),
        1..=2048u32,
        1..=64u32,
        any::<u64>(),
    )
        .prop_map(|(ranks, experts, top_k, wide, deep, seed)| {
            let experts_per_rank = 1 + experts % (MAX_EXPERTS / ranks);
            let top_k = 1 + top_k % (ranks * experts_per_rank).min(64);
            let limit = MAX_ROWS / ranks / top_k;
            let tokens = |rank| {
                let mixed = (seed ^ u64::from(rank)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (mixed >> 33) as u32 % (limit + 1)
            };
            let tokens_per_rank: Vec<u32> = (0..ranks).map(tokens).collect();
            let busiest = tokens_per_rank.iter().max().copied().unwrap_or(0);
            let spec = ProblemSpec {
                tokens_per_rank,
                hidden: 32 * wide,
                intermediate: 32 * deep,
                experts_per_rank,
                top_k,
                max_output_size: (busiest * top_k).max(1),
                input_type: FloatType::Bf16,
                output_type: FloatType::Bf16,
            };
            spec.build().unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn regions_are_in_order_aligned_and_apart(problem in any_problem()) {
        let layout = WindowLayout::new(&problem).unwrap();
        let mut end = 0u128;
        for region in Region::ALL {
            let extent = layout.extent(region);
            prop_assert!(u128::from(extent.offset) >= end, "{region:?} overlaps its predecessor");
            prop_assert_eq!(extent.offset % LINE_BYTES, 0, "{:?}", region);
            prop_assert_eq!(extent.stride % 32, 0, "{:?}", region);
            end = u128::from(extent.offset) + u128::from(extent.stride) * u128::from(extent.count);
        }
        let required = layout.required_bytes();
        prop_assert!(u128::from(required) >= end && u128::from(required) < end + 512);
        let routes = (0..problem.num_ranks()).map(|r| problem.num_routes(r)).max().unwrap();
        let packed = u128::from(problem.packed_row_bytes()) * u128::from(routes);
        let returned = 2 * u128::from(problem.hidden()) * u128::from(routes);
        prop_assert!(end > packed + returned);
        prop_assert!(layout.hccl_buffsize_mb() << 20 >= required);
        prop_assert!((layout.hccl_buffsize_mb() - 1) << 20 < required);
    }

    #[test]
    fn counts_have_room_beside_every_lines_flag(problem in any_problem(), epoch in 1..i32::MAX) {
        let layout = WindowLayout::new(&problem).unwrap();
        let counts = layout.extent(Region::Counts);
        let lines = counts.stride / LINE_BYTES;
        prop_assert_eq!(counts.stride % LINE_BYTES, 0);
        prop_assert!(lines * COUNTS_PER_LINE >= problem.num_experts().into());
        let last = problem.num_ranks() - 1;
        let (this, next) = (layout.counts_of(last, epoch), layout.counts_of(last, epoch + 1));
        prop_assert!(this.abs_diff(next) == counts.stride * u64::from(problem.num_ranks()));
        prop_assert!(this.max(next) + counts.stride <= counts.offset + counts.bytes());
    }

    #[test]
    fn device_code_sees_the_same(problem in any_problem(), epoch in 1..i32::MAX) {
        let layout = WindowLayout::new(&problem).unwrap();
        let map = WindowMap::new(&layout, 0, epoch, Gm::NULL);
        prop_assert_eq!(map.counts, layout.counts_of(0, epoch));
        prop_assert_eq!(map.packed_rows, layout.extent(Region::PackedRows).offset);
        prop_assert_eq!(map.returned_rows, layout.extent(Region::ReturnedRows).offset);
        prop_assert_eq!(map.packed_row_bytes, u64::from(problem.hidden()) + 32);
        prop_assert_eq!(map.num_ranks, problem.num_ranks());
    }
}

fn seed_case() -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![2048; 8],
        hidden: 7168,
        intermediate: 2048,
        experts_per_rank: 16,
        top_k: 8,
        max_output_size: 81940,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

#[test]
fn a_fixed_window_that_is_too_small_says_how_many_mb_are_needed() {
    let layout = WindowLayout::new(&seed_case()).unwrap();
    let mb = layout.hccl_buffsize_mb();
    assert_eq!(layout.check_fits(mb << 20), Ok(()));
    let error = layout.check_fits((mb - 1) << 20).unwrap_err();
    assert!(matches!(error, WindowSizeError::TooSmall { needed_mb, .. } if needed_mb == mb));
    assert!(
        error
            .to_string()
            .contains(&format!("HCCL_BUFFSIZE to at least {mb} ")),
        "{error}"
    );
}

/// 16384 rows of 7200 and of 14336 bytes are 336.5 MiB; the published kernel asks for 1752 MiB.
#[test]
fn the_window_of_the_published_case_is_exact() {
    let layout = WindowLayout::new(&seed_case()).unwrap();
    let rows = 16384 * (7200 + 14336);
    assert!(layout.required_bytes() - rows < 64 * 1024);
    assert_eq!(layout.hccl_buffsize_mb(), 337);
}

#[test]
fn a_window_can_exceed_4_gib() {
    let spec = ProblemSpec {
        tokens_per_rank: vec![1 << 17; 2],
        ..seed_case().spec().clone()
    };
    let spec = ProblemSpec {
        max_output_size: 1 << 20,
        ..spec
    };
    let layout = WindowLayout::new(&spec.build().unwrap()).unwrap();
    assert!(layout.required_bytes() > 4 << 30);
    assert!(layout.extent(Region::ReturnedRows).offset > 4 << 30);
}

#[test]
fn the_map_prints_every_region() {
    let text = WindowLayout::new(&seed_case()).unwrap().to_string();
    for region in Region::ALL {
        assert!(text.contains(region.name()), "{text}");
    }
    assert!(text.contains("HCCL_BUFFSIZE=337"), "{text}");
}
