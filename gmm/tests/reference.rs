//! The oracle and the packing against the naive triple loop.

use half::f16;
use megamoe_gmm::packing::{pack, unpack};
use megamoe_gmm::reference::{Gmm, gmm};
use moe_core::numerics::{fixpipe_f16, fixpipe_scale};
use moe_core::rng::Rng;
use proptest::prelude::*;

fn random_i8(rng: &mut Rng, count: u64) -> Vec<i8> {
    (0..count)
        .map(|_| (rng.below(256) as u8).cast_signed())
        .collect()
}

proptest! {
    #[test]
    fn equals_the_triple_loop(
        rows in proptest::collection::vec(0u32..5, 1..4),
        k in 1u32..70,
        n in 1u32..70,
        seed: u64,
    ) {
        let mut rng = Rng::new(seed);
        let offsets: Vec<u32> = std::iter::once(0)
            .chain(rows.iter().scan(0, |sum, r| { *sum += r; Some(*sum) }))
            .collect();
        let num_rows = offsets[rows.len()];
        let a = random_i8(&mut rng, u64::from(num_rows * k));
        let (rows_k, cols_n) = (u64::from(k), u64::from(n));
        let plain: Vec<Vec<i8>> = rows.iter().map(|_| random_i8(&mut rng, rows_k * cols_n)).collect();
        let weight: Vec<i8> = plain.iter().flat_map(|w| pack(w, rows_k, cols_n).unwrap()).collect();
        let scale: Vec<u64> = (0..rows.len() as u64 * cols_n)
            .map(|_| u64::from((rng.normal_f32() * 1e-3).to_bits()))
            .collect();
        let c = gmm(&Gmm { k, n, expert_offsets: &offsets, a: &a, weight: &weight, channel_scale: &scale });
        for expert in 0..rows.len() {
            for row in offsets[expert]..offsets[expert + 1] {
                for col in 0..n {
                    let acc: i32 = (0..k)
                        .map(|i| i32::from(a[(row * k + i) as usize]) * i32::from(plain[expert][(i * n + col) as usize]))
                        .sum();
                    let want = fixpipe_f16(acc, fixpipe_scale(scale[expert * n as usize + col as usize]));
                    prop_assert_eq!(c[(row * n + col) as usize].to_bits(), want.to_bits());
                }
            }
        }
    }

    #[test]
    fn packing_round_trips(rows in 1u64..50, cols in 1u64..70, seed: u64) {
        let plain = random_i8(&mut Rng::new(seed), rows * cols);
        prop_assert_eq!(&unpack(&pack(&plain, rows, cols).unwrap(), rows, cols).unwrap(), &plain);
    }
}

#[test]
fn a_matrix_of_the_wrong_length_is_refused() {
    let error = pack(&[0; 5], 2, 3).unwrap_err().to_string();
    assert_eq!(error, "a plain matrix of 2 x 3 has 6 bytes, got 5");
    assert!(unpack(&[0; 5], 2, 3).is_err());
}

#[test]
fn no_rows_no_output() {
    let empty: Vec<f16> = Vec::new();
    let inputs = Gmm {
        k: 32,
        n: 32,
        expert_offsets: &[0, 0],
        a: &[],
        weight: &[0; 1024],
        channel_scale: &[0; 32],
    };
    assert_eq!(gmm(&inputs), empty);
}
