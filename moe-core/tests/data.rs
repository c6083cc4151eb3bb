//! The published data writer's rule, value by value against numbers worked out by hand.

use moe_core::data::{DataKind, Generator, Matrix};
use moe_core::numerics::fixpipe_scale;
use moe_core::{FloatType, Problem, ProblemSpec};

fn problem() -> Problem {
    ProblemSpec {
        tokens_per_rank: vec![4, 4],
        hidden: 32,
        intermediate: 32,
        experts_per_rank: 4,
        top_k: 2,
        max_output_size: 64,
        input_type: FloatType::Bf16,
        output_type: FloatType::F16,
    }
    .build()
    .unwrap()
}

#[test]
fn the_synthetic_rule_by_hand() {
    let problem = problem();
    let data = Generator::new(&problem, DataKind::Synthetic, 0);
    // 0.75 sin(0) + 0.05 cos(0) = 0.05 = 0x3d4ccccd, truncated.
    assert_eq!(data.token(0, 0)[0], 0x3d4c);
    let probs = data.probs(1, 3);
    let raw = [2.0 + 0.05 + 0.01, 1.0 + 0.05 + 0.01f32];
    assert!(
        (probs[0] - raw[0] / (raw[0] + raw[1])).abs() < 1e-7,
        "{probs:?}"
    );
    // Packed column block 0, row 1, column 2 of expert 0: linear index 1 * 64 + 2.
    assert_eq!(
        data.weight(Matrix::Weight1, 1, 0)[32 + 2],
        ((66 + 13 + 7) % 7) - 3
    );
    assert_eq!(
        data.weight(Matrix::Weight2, 1, 0)[32 + 2],
        ((34 + 19 + 11) % 9) - 4
    );
    let scales = data.scales(Matrix::Weight2, 1);
    assert_eq!(
        fixpipe_scale(scales[3]),
        (1.0 + ((3 + 23) % 5) as f32 / 8.0) / 16.0
    );
}

#[test]
fn random_data_depends_on_every_coordinate_and_on_nothing_else() {
    let problem = problem();
    let data = Generator::new(&problem, DataKind::Random, 5);
    assert_eq!(data.token(1, 2), data.token(1, 2));
    assert_ne!(data.token(1, 2), data.token(0, 2));
    assert_ne!(data.token(1, 2), data.token(1, 1));
    assert_ne!(
        data.weight(Matrix::Weight1, 0, 0),
        data.weight(Matrix::Weight1, 0, 1)
    );
    let other = Generator::new(&problem, DataKind::Random, 6);
    assert_ne!(data.token(0, 0), other.token(0, 0));
    let weights = data.weight(Matrix::Weight1, 0, 0);
    assert!(weights.iter().any(|&w| w < -100) && weights.iter().any(|&w| w > 100));
    assert!(!weights.contains(&-128));
}
