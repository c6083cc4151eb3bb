//! Every instruction set that the processor has gives the bits of the portable code.

use megamoe_device::Round;
use megamoe_device::compute::convert::{
    f16_to_f32, f32_to_bf16_rounded, f32_to_f16_rounded, f32_to_i8, f32_to_i32,
};
use megamoe_device::compute::elementwise::{Binary, Half, Number, Unary, map, zip};
use megamoe_device::compute::matmul::{
    Left, Product, Right, Scratch, copy_left, multiply, row_sums,
};
use megamoe_device::compute::{Level, reduce};
use moe_core::numerics;
use moe_core::rng::Rng;

const LEN: usize = 1000;

fn bits(seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..LEN).map(|_| rng.next_u64() as u32).collect()
}

/// All bit patterns, so that NaNs, infinities and subnormals are among them.
fn floats(seed: u64) -> Vec<f32> {
    bits(seed).into_iter().map(f32::from_bits).collect()
}

struct Function<F, A, B>(F, std::marker::PhantomData<(A, B)>);

impl<A: Copy + Default, B: Copy + Default, F: Fn(A) -> B> Unary for Function<F, A, B> {
    type In = A;
    type Out = B;
    fn apply(&self, value: A) -> B {
        (self.0)(value)
    }
}

impl<A: Copy + Default, F: Fn(A, A) -> A> Binary for Function<F, A, ()> {
    type Element = A;
    fn apply(&self, a: A, b: A) -> A {
        (self.0)(a, b)
    }
}

#[track_caller]
fn check_map<A: Copy + Default, B: Copy + Default, K: PartialEq + std::fmt::Debug>(
    source: &[A],
    f: impl Fn(A) -> B,
    key: impl Fn(B) -> K,
) {
    let want: Vec<K> = source.iter().map(|&value| key(f(value))).collect();
    let function = Function(f, std::marker::PhantomData);
    for level in Level::available() {
        for len in [0, 1, 63, 64, 65, LEN] {
            let mut out = vec![B::default(); LEN];
            // SAFETY: both have `LEN` elements, and the processor has the level.
            unsafe { map(level, &function, out.as_mut_ptr(), source.as_ptr(), len) };
            let got: Vec<K> = out[..len].iter().map(|&value| key(value)).collect();
            assert_eq!(got, want[..len], "{level:?}");
        }
    }
}

/// NaNs as one value: their payload is not part of the contract.
fn float_key(value: f32) -> u32 {
    if value.is_nan() {
        0x7fc0_0000
    } else {
        value.to_bits()
    }
}

fn half_key(bits: u16) -> u16 {
    if bits & 0x7fff > 0x7c00 { 0x7e00 } else { bits }
}

#[test]
fn exponential() {
    check_map(&floats(1), numerics::exp, float_key);
    let near: Vec<f32> = (0..LEN).map(|i| (i as f32 - 500.0) / 4.9).collect();
    check_map(&near, numerics::exp, float_key);
}

#[test]
fn conversions() {
    const MODES: [Round; 7] = [
        Round::None,
        Round::Rint,
        Round::Away,
        Round::Floor,
        Round::Ceil,
        Round::Trunc,
        Round::Odd,
    ];
    for round in MODES {
        check_map(&floats(2), |v| f32_to_f16_rounded(v, round), half_key);
        check_map(&floats(3), |v| f32_to_bf16_rounded(v, round), |bits| bits);
        check_map(&floats(4), |v| f32_to_i32(v, round), |v| v);
        check_map(&floats(5), |v| f32_to_i8(v, round, false), |v| v);
    }
    let halves: Vec<u16> = bits(6).into_iter().map(|v| v as u16).collect();
    check_map(&halves, f16_to_f32, float_key);
}

/// The language's own conversion is the oracle.
#[test]
fn conversions_to_integers_saturate() {
    let near = |bits: u32| (bits - 3..=bits + 3).map(f32::from_bits);
    let mut values = floats(13);
    for edge in [2_147_483_648.0f32, 32_768.0, 128.0, 256.0, 1.0, 0.5] {
        values.extend(near(edge.to_bits()).flat_map(|value| [value, -value]));
    }
    values.extend([
        0.0,
        -0.0,
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ]);
    for value in values {
        let whole = value.trunc();
        assert_eq!(f32_to_i32(value, Round::Trunc), whole as i32, "{value}");
        assert_eq!(f32_to_i8(value, Round::Trunc, true), whole as i8, "{value}");
        let low_bits = f32_to_i8(value, Round::Trunc, false);
        assert_eq!(low_bits, whole as i32 as i8, "{value}");
    }
}

#[test]
fn two_operands_in_place_and_apart() {
    let (a, b) = (floats(7), floats(8));
    let halves = |seed| {
        bits(seed)
            .into_iter()
            .map(|v| Half(v as u16))
            .collect::<Vec<_>>()
    };
    let (c, d) = (halves(9), halves(10));
    for level in Level::available() {
        let mul = Function(|a: f32, b: f32| a * b, std::marker::PhantomData);
        let mut out = a.clone();
        // SAFETY: all have `LEN` elements; source and target are the same or apart.
        unsafe { zip(level, &mul, out.as_mut_ptr(), out.as_ptr(), b.as_ptr(), LEN) };
        let add = Function(Half::add, std::marker::PhantomData);
        let mut sums = vec![Half::default(); LEN];
        // SAFETY: as above.
        unsafe { zip(level, &add, sums.as_mut_ptr(), c.as_ptr(), d.as_ptr(), LEN) };
        for i in 0..LEN {
            assert_eq!(float_key(out[i]), float_key(a[i] * b[i]), "{level:?}");
            assert_eq!(half_key(sums[i].0), half_key(c[i].add(d[i]).0), "{level:?}");
        }
    }
}

#[test]
fn row_maximum() {
    let mut rng = Rng::new(11);
    let row: Vec<f32> = (0..LEN).map(|_| rng.normal_f32()).collect();
    for level in Level::available() {
        for len in [1, 2, 63, 64, 65, 128, LEN] {
            let mut max = 0.0;
            // SAFETY: `len` elements are there, and the processor has the level.
            unsafe { reduce::max(level, &raw mut max, row.as_ptr(), len) };
            assert_eq!(
                max,
                row[..len].iter().copied().fold(f32::MIN, f32::max),
                "{level:?}, {len}"
            );
        }
    }
}

#[test]
fn matrix_tiles() {
    let mut rng = Rng::new(12);
    for (m, n, k) in [
        (1usize, 32usize, 32usize),
        (12, 64, 64),
        (13, 96, 30),
        (23, 32, 96),
        (128, 256, 128),
        (5, 16, 31),
        (3, 32, 800),
        (25, 48, 1601),
    ] {
        // Pieces and blocks lie farther apart than they need, with other bytes between and behind k.
        let (pieces, blocks, depth) = (k.div_ceil(32), n.div_ceil(32), k.next_multiple_of(4) + 3);
        let source_stride = (m + 1) * 32;
        let a: Vec<u8> = (0..pieces * source_stride)
            .map(|_| rng.next_u64() as u8)
            .collect();
        let b: Vec<u8> = (0..32 * blocks * depth)
            .map(|_| rng.next_u64() as u8)
            .collect();
        let products = |row: usize, column: usize| {
            let (a, b) = (&a, &b);
            (0..k).map(move |i| {
                let a = a[(i / 32) * source_stride + row * 32 + i % 32] as i8;
                let b = b[(column / 32) * 32 * depth + i * 32 + column % 32] as i8;
                i32::from(a) * i32::from(b)
            })
        };
        for level in Level::available() {
            for accumulate in [true, false] {
                let mut left = vec![0x55u8; m * pieces * 32];
                let mut sums = vec![99; m];
                let mut c = vec![7; m * n];
                let product = Product {
                    m,
                    n,
                    k,
                    c_stride: n,
                    accumulate,
                };
                // SAFETY: all operands have the sizes that the product says.
                unsafe {
                    copy_left(left.as_mut_ptr(), a.as_ptr(), source_stride, (m, k));
                    row_sums(level, left.as_ptr(), m * 32, k, &mut sums);
                    let left = Left {
                        data: left.as_ptr(),
                        piece_stride: m * 32,
                        sums: &sums,
                    };
                    let right = Right {
                        data: b.as_ptr(),
                        block_stride: 32 * depth,
                    };
                    let mut scratch = Box::<Scratch>::default();
                    multiply(level, &product, left, right, &mut scratch, c.as_mut_ptr());
                }
                for row in 0..m {
                    for column in 0..n {
                        let want = i32::from(accumulate) * 7 + products(row, column).sum::<i32>();
                        let place = format!("{level:?}, {m} x {n} x {k}, ({row}, {column})");
                        assert_eq!(c[row * n + column], want, "{place}");
                    }
                }
            }
        }
    }
}
