//! Elementwise instructions, against naive code: types, regions, ties, NaN, infinities, overflow.

mod common;

use bytemuck::Pod;
use common::{Case, MAX_COLS, MAX_ROWS, STRIDE, device, operands};
use half::f16;
use megamoe_device::VirtualDevice;
use megamoe_device_examples::VECTOR;
use moe_core::numerics;
use moe_core::rng::Rng;

/// Regions: one element, one column, one row, tails, everything.
const REGIONS: [(usize, usize); 7] = [
    (1, 1),
    (16, 1),
    (1, 96),
    (3, 7),
    (5, 33),
    (16, 95),
    (MAX_ROWS, MAX_COLS),
];

const SPECIAL: [f32; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    1e-40,
    -1e-40,
    f32::MAX,
    f32::MIN,
    65504.0,
    1.0e-8,
];

fn floats(seed: u64) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let turn = seed as usize % SPECIAL.len();
    let special: Vec<f32> = (0..SPECIAL.len())
        .map(|i| SPECIAL[(i + turn) % SPECIAL.len()])
        .collect();
    operands(&special, || rng.normal_f32() * 10.0)
}

/// Equal bits, or both not a number.
fn same(got: f32, want: f32) -> bool {
    got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan())
}

struct Instruction<'a> {
    device: &'a VirtualDevice,
    op: u32,
    dtype: u32,
    scalar: u64,
}

impl Instruction<'_> {
    fn check<T: Pod + PartialEq + std::fmt::Debug>(
        &self,
        a: &[T],
        b: &[T],
        untouched: T,
        same: impl Fn(T, T) -> bool,
        naive: impl Fn(T, T) -> T,
    ) {
        for (rows, cols) in REGIONS {
            let case = Case {
                kernel: VECTOR,
                op: self.op,
                dtype: self.dtype,
                scalar: self.scalar,
                mode: 0,
                rows,
                cols,
            };
            let out = case.run(self.device, a, b, untouched).unwrap();
            for (i, &got) in out.iter().enumerate() {
                let want = if case.contains(i) {
                    naive(a[i], b[i])
                } else {
                    untouched
                };
                let op = self.op;
                assert!(
                    same(got, want),
                    "op {op}, {rows} x {cols}, element {i}: {got:?} not {want:?}"
                );
            }
        }
    }
}

fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a > b {
        a
    } else {
        b
    }
}

fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else if a < b {
        a
    } else {
        b
    }
}

type FloatFn = fn(f32, f32) -> f32;

/// Instructions of two operands, then with the scalar second, in the order of the kernel.
const FLOAT_OPS: [FloatFn; 6] = [
    |a, b| a + b,
    |a, b| a - b,
    |a, b| a * b,
    |a, b| a / b,
    larger,
    smaller,
];

#[test]
fn f32_of_two_operands() {
    let device = device();
    for (op, naive) in (0..).zip(FLOAT_OPS) {
        let (a, b) = (floats(1), floats(8));
        Instruction {
            device: &device,
            op,
            dtype: 0,
            scalar: 0,
        }
        .check(&a, &b, -7.25, same, naive);
    }
}

#[test]
fn f32_with_a_scalar() {
    let device = device();
    for scalar in [2.5f32, -0.0, f32::INFINITY, 3e-39] {
        for (op, naive) in (6..).zip(FLOAT_OPS) {
            let instruction = Instruction {
                device: &device,
                op,
                dtype: 0,
                scalar: scalar.to_bits().into(),
            };
            instruction.check(&floats(2), &floats(9), -7.25, same, |a, _| naive(a, scalar));
        }
        let divide = Instruction {
            device: &device,
            op: 12,
            dtype: 0,
            scalar: scalar.to_bits().into(),
        };
        divide.check(&floats(2), &floats(9), -7.25, same, |a, _| scalar / a);
        let fill = Instruction {
            device: &device,
            op: 16,
            dtype: 0,
            scalar: scalar.to_bits().into(),
        };
        fill.check(&floats(2), &floats(9), -7.25, same, |_, _| scalar);
    }
}

#[test]
fn f32_of_one_operand() {
    let device = device();
    let unary: [(u32, FloatFn); 5] = [
        (13, |a, _| a.abs()),
        (14, |a, _| -a),
        (15, |a, _| numerics::exp(a)),
        (17, |a, _| a),
        (18, |a, b| a + b),
    ];
    for (op, naive) in unary {
        Instruction {
            device: &device,
            op,
            dtype: 0,
            scalar: 0,
        }
        .check(&floats(3), &floats(4), -7.25, same, naive);
    }
}

#[test]
fn i32_wraps() {
    let device = device();
    let mut rng = Rng::new(5);
    let mut values = || operands(&[0, 1, -1, i32::MIN, i32::MAX, 7], || rng.next_u64() as i32);
    let (a, b) = (values(), values());
    let ops: [fn(i32, i32) -> i32; 6] = [
        i32::wrapping_add,
        i32::wrapping_sub,
        i32::wrapping_mul,
        |a, b| a.checked_div(b).unwrap_or(0),
        std::cmp::max,
        std::cmp::min,
    ];
    for (op, naive) in (0..).zip(ops) {
        let equal = |a, b| a == b;
        Instruction {
            device: &device,
            op,
            dtype: 1,
            scalar: 0,
        }
        .check(&a, &b, -99, equal, naive);
        let scalar = -3i32;
        Instruction {
            device: &device,
            op: op + 6,
            dtype: 1,
            scalar: scalar as u32 as u64,
        }
        .check(&a, &b, -99, equal, |a, _| naive(a, scalar));
    }
}

#[test]
fn i16_wraps() {
    let device = device();
    let mut rng = Rng::new(6);
    let mut values = || operands(&[0, 1, -1, i16::MIN, i16::MAX], || rng.next_u64() as i16);
    let (a, b) = (values(), values());
    let ops: [fn(i16, i16) -> i16; 3] = [i16::wrapping_add, i16::wrapping_sub, i16::wrapping_mul];
    for (op, naive) in (0..).zip(ops) {
        Instruction {
            device: &device,
            op,
            dtype: 2,
            scalar: 0,
        }
        .check(&a, &b, 9, |a, b| a == b, naive);
    }
}

/// A half is computed in fp32 and rounded once.
#[test]
fn half_rounds_once() {
    let device = device();
    let halves = |seed| -> Vec<u16> {
        floats(seed)
            .iter()
            .map(|&v| f16::from_f32(v).to_bits())
            .collect()
    };
    let wide = |bits: u16| f16::from_bits(bits).to_f32();
    let equal = |a: u16, b: u16| a == b || (wide(a).is_nan() && wide(b).is_nan());
    for (op, naive) in (0..).zip(FLOAT_OPS) {
        Instruction {
            device: &device,
            op,
            dtype: 3,
            scalar: 0,
        }
        .check(&halves(1), &halves(8), 0x1234, equal, |a, b| {
            f16::from_f32(naive(wide(a), wide(b))).to_bits()
        });
    }
}

#[test]
fn row_maximum() {
    let device = device();
    for (seed, (rows, cols)) in (10..).zip(REGIONS) {
        // Without the special values, so that rows are not all NaN.
        let mut rng = Rng::new(seed);
        let mut a = operands(&[], || rng.normal_f32());
        a[STRIDE + cols / 2] = f32::INFINITY;
        if rows > 2 {
            a[2 * STRIDE + cols - 1] = f32::NAN;
        }
        let case = Case {
            kernel: VECTOR,
            op: 20,
            dtype: 0,
            scalar: 0,
            mode: 0,
            rows,
            cols,
        };
        let out = case.run(&device, &a, &a, -7.25f32).unwrap();
        for (i, &got) in out.iter().enumerate() {
            let row = &a[i / STRIDE * STRIDE..i / STRIDE * STRIDE + cols];
            let is_result = i % STRIDE == 0 && i / STRIDE < rows;
            let want = if is_result {
                row.iter().copied().reduce(larger).unwrap()
            } else {
                -7.25
            };
            assert!(
                same(got, want),
                "{rows} x {cols}, element {i}: {got} not {want}"
            );
        }
    }
}

/// TLOAD and TSTORE touch the valid region only; the move between them is exact.
#[test]
fn every_region_moves_exactly() {
    let device = device();
    for rows in 1..=MAX_ROWS {
        for cols in [1, 2, 8, 31, 32, 64, 65, MAX_COLS] {
            let case = Case {
                kernel: VECTOR,
                op: 17,
                dtype: 1,
                scalar: 0,
                mode: 0,
                rows,
                cols,
            };
            let a: Vec<i32> = (0..(MAX_ROWS * STRIDE) as i32).collect();
            let out = case.run(&device, &a, &a, -1).unwrap();
            for (i, &got) in out.iter().enumerate() {
                assert_eq!(
                    got,
                    if case.contains(i) { a[i] } else { -1 },
                    "{rows} x {cols}, element {i}"
                );
            }
        }
    }
}

#[test]
fn stores_add_to_what_is_there() {
    let device = device();
    let (rows, cols) = (5, 33);
    let case = |dtype| Case {
        kernel: VECTOR,
        op: 19,
        dtype,
        scalar: 0,
        mode: 0,
        rows,
        cols,
    };
    let mut rng = Rng::new(3);
    let (a, b) = (operands(&[], || rng.normal_f32()), floats(20));
    let out = case(0).run(&device, &a, &b, 0.25f32).unwrap();
    for (i, &got) in out.iter().enumerate() {
        let want = if case(0).contains(i) {
            0.25 + a[i] + b[i]
        } else {
            0.25
        };
        assert!(same(got, want), "element {i}: {got} not {want}");
    }
    let ints: Vec<i32> = a.iter().map(|v| (v * 1e9) as i32).collect();
    let out = case(1).run(&device, &ints, &ints, i32::MAX).unwrap();
    for (i, &got) in out.iter().enumerate() {
        let sum = i32::MAX.wrapping_add(ints[i]).wrapping_add(ints[i]);
        assert_eq!(got, if case(1).contains(i) { sum } else { i32::MAX });
    }
    let halves: Vec<u16> = a.iter().map(|&v| f16::from_f32(v).to_bits()).collect();
    let one = f16::ONE.to_bits();
    let out = case(3).run(&device, &halves, &halves, one).unwrap();
    for (i, &got) in out.iter().enumerate() {
        let value = f16::from_bits(halves[i]).to_f32();
        let once = f16::from_f32(1.0 + value).to_f32();
        let twice = f16::from_f32(once + value).to_bits();
        assert_eq!(got, if case(3).contains(i) { twice } else { one });
    }
}
