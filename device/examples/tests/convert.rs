//! `TCVT`: every pair of types in every rounding mode, against exact arithmetic in f64.

mod common;

use bytemuck::Pod;
use common::{Case, MAX_COLS, MAX_ROWS, STRIDE, device, operands};
use half::{bf16, f16};
use megamoe_device::VirtualDevice;
use megamoe_device_examples::CONVERT;
use moe_core::rng::Rng;

const MODES: [(u32, &str); 7] = [
    (0, "none"),
    (1, "rint"),
    (2, "round"),
    (3, "floor"),
    (4, "ceil"),
    (5, "trunc"),
    (6, "odd"),
];

/// Chooses between the neighbours of an inexact value. `low < value < high`; `low_is_even` and
/// `middle` describe them.
fn choose(mode: u32, value: f64, (low, high): (f64, f64), low_is_even: bool) -> f64 {
    let (toward_zero, away) = if value < 0.0 {
        (high, low)
    } else {
        (low, high)
    };
    let middle = (low + high) / 2.0;
    let nearest = if value < middle { low } else { high };
    let even = if low_is_even { low } else { high };
    let odd = if low_is_even { high } else { low };
    match mode {
        0 | 1 => {
            if value == middle {
                even
            } else {
                nearest
            }
        }
        2 => {
            if value == middle {
                away
            } else {
                nearest
            }
        }
        3 => low,
        4 => high,
        5 => toward_zero,
        _ => odd,
    }
}

/// An integral value, rounded by the mode.
fn integral(mode: u32, value: f64) -> f64 {
    if value == value.trunc() || !value.is_finite() {
        return value;
    }
    let low = value.floor();
    let rounded = choose(mode, value, (low, low + 1.0), low % 2.0 == 0.0);
    if rounded == 0.0 {
        0f64.copysign(value)
    } else {
        rounded
    }
}

/// Values of a 16-bit format by walking its bit patterns: exact, and slow.
fn narrow(mode: u32, value: f64, widen: fn(u16) -> f64, infinity: u16) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    if value.is_nan() {
        return infinity | 1;
    }
    if value.is_infinite() {
        return infinity | sign;
    }
    // The step past the largest finite value counts as the next one of its binade.
    let magnitude_of = |bits: u16| {
        if bits == infinity {
            2.0 * widen(infinity - 1) - widen(infinity - 2)
        } else {
            widen(bits)
        }
    };
    let target = value.abs();
    let (mut low, mut high) = (0, infinity);
    while low + 1 < high {
        let middle = (low + high) / 2;
        if magnitude_of(middle) <= target {
            low = middle;
        } else {
            high = middle;
        }
    }
    if magnitude_of(low) == target {
        return low | sign;
    }
    if target > magnitude_of(infinity) {
        let to_largest = match mode {
            3 => sign == 0,
            4 => sign != 0,
            5 | 6 => true,
            _ => false,
        };
        return if to_largest {
            (infinity - 1) | sign
        } else {
            infinity | sign
        };
    }
    let (a, b) = (magnitude_of(low), magnitude_of(high));
    let (signed, even) = if sign == 0 {
        ((a, b), low % 2 == 0)
    } else {
        ((-b, -a), high % 2 == 0)
    };
    let chosen = choose(mode, value, signed, even);
    let bits = if chosen.abs() == a { low } else { high };
    bits | sign
}

fn f16_value(bits: u16) -> f64 {
    f16::from_bits(bits).to_f64()
}

fn bf16_value(bits: u16) -> f64 {
    bf16::from_bits(bits).to_f64()
}

fn convert<A: Pod, O: Pod + PartialEq + std::fmt::Debug>(
    device: &VirtualDevice,
    (op, mode, saturate): (u32, u32, u64),
    a: &[A],
    untouched: O,
) -> Vec<O> {
    let case = Case {
        kernel: CONVERT,
        op,
        dtype: 0,
        scalar: saturate,
        mode,
        rows: MAX_ROWS,
        cols: MAX_COLS,
    };
    let out = case.run(device, a, a, untouched).unwrap();
    (0..out.len())
        .filter(|&i| case.contains(i))
        .map(|i| out[i])
        .collect()
}

fn region<T: Copy>(a: &[T]) -> Vec<T> {
    (0..a.len())
        .filter(|i| i % STRIDE < MAX_COLS)
        .map(|i| a[i])
        .collect()
}

/// Ties, neighbours of ties, limits of the formats, subnormals, special values, then random ones.
fn floats(scale: f32) -> Vec<f32> {
    let mut special = vec![
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        65504.0,
        65519.9,
        65520.0,
        65535.9,
        65536.0,
        -65520.0,
        5.960_464_5e-8,
        2.980_232_2e-8,
        2.980_232_5e-8,
        6.103_515_6e-5,
        6.1e-5,
        127.5,
        128.5,
        -128.5,
        255.5,
        32767.5,
        -32768.5,
        2_147_483_600.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        3e9,
        1.000_488_3,
        1.000_976_6,
        1.001_464_8,
        2049.0,
        2051.0,
        3.004_882_8,
    ];
    special.extend((-20..20).map(|i| i as f32 / 2.0));
    special.extend((-20..20).map(|i| (i as f32 / 2.0).next_up()));
    let mut rng = Rng::new(1);
    operands(&special, || {
        let spread = (rng.normal_f32() * 4.0).exp2();
        rng.normal_f32() * spread * scale
    })
}

fn halves() -> Vec<u16> {
    let mut rng = Rng::new(2);
    let special = [
        0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0x7d00, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff, 0x5800,
        0x5bf8, 0xd808,
    ];
    operands(&special, || rng.next_u64() as u16)
}

#[test]
fn f32_to_f16() {
    let device = device();
    for (mode, name) in MODES {
        let a = floats(1.0);
        let out = convert(&device, (0, mode, 1), &a, 0u16);
        for (value, got) in region(&a).into_iter().zip(out) {
            let want = narrow(mode, value.into(), f16_value, 0x7c00);
            let nan = value.is_nan() && f16::from_bits(got).is_nan();
            assert!(
                got == want || nan,
                "{name}: {value:e} gives {got:#x}, not {want:#x}"
            );
        }
    }
}

#[test]
fn f32_to_f16_saturates_by_default() {
    let device = device();
    let a = floats(1e4);
    let out = convert(&device, (0, 1, 0), &a, 0u16);
    for (value, got) in region(&a).into_iter().zip(out) {
        let overflows = value.is_finite() && value.abs() >= 65520.0;
        let want = if overflows {
            f16::from_f32(65504f32.copysign(value)).to_bits()
        } else {
            f16::from_f32(value).to_bits()
        };
        assert!(
            got == want || value.is_nan(),
            "{value:e} gives {got:#x}, not {want:#x}"
        );
    }
}

#[test]
fn f32_to_bf16() {
    let device = device();
    for (mode, name) in MODES {
        let a = floats(1.0);
        let out = convert(&device, (1, mode, 0), &a, 0u16);
        for (value, got) in region(&a).into_iter().zip(out) {
            let want = narrow(mode, value.into(), bf16_value, 0x7f80);
            let nan = value.is_nan() && bf16::from_bits(got).is_nan();
            assert!(
                got == want || nan,
                "{name}: {value:e} gives {got:#x}, not {want:#x}"
            );
        }
    }
}

#[test]
fn f32_to_integers() {
    let device = device();
    for (mode, name) in MODES {
        let a = floats(100.0);
        let whole = convert(&device, (2, mode, 0), &a, 0f32);
        let int = convert(&device, (3, mode, 0), &a, 0i32);
        let short_kept = convert(&device, (4, mode, 0), &a, 0i16);
        let short_saturated = convert(&device, (4, mode, 2), &a, 0i16);
        for (i, value) in region(&a).into_iter().enumerate() {
            let want = integral(mode, value.into());
            let nan = value.is_nan() && whole[i].is_nan();
            assert!(
                nan || whole[i] == want as f32,
                "{name}: {value:e} gives {}",
                whole[i]
            );
            assert_eq!(int[i], want as i32, "{name}: {value:e}");
            assert_eq!(
                short_kept[i], want as i32 as i16,
                "{name}: {value:e}, not saturating"
            );
            assert_eq!(
                short_saturated[i], want as i16,
                "{name}: {value:e}, saturating"
            );
        }
    }
}

#[test]
fn f16_to_wider_and_to_integers() {
    let device = device();
    let a = halves();
    let wide = convert(&device, (5, 0, 0), &a, 0f32);
    for (&bits, got) in region(&a).iter().zip(&wide) {
        let want = f16::from_bits(bits).to_f32();
        assert!(
            got.to_bits() == want.to_bits() || (want.is_nan() && got.is_nan()),
            "{bits:#x}"
        );
    }
    for (mode, name) in MODES {
        let int = convert(&device, (6, mode, 0), &a, 0i32);
        let short = convert(&device, (7, mode, 0), &a, 0i16);
        let byte = convert(&device, (8, mode, 0), &a, 0i8);
        let byte_saturated = convert(&device, (8, mode, 2), &a, 0i8);
        let unsigned = convert(&device, (9, mode, 0), &a, 0u8);
        let unsigned_saturated = convert(&device, (9, mode, 2), &a, 0u8);
        for (i, &bits) in region(&a).iter().enumerate() {
            let want = integral(mode, f16_value(bits));
            assert_eq!(int[i], want as i32, "{name}: {bits:#x}");
            assert_eq!(short[i], want as i32 as i16, "{name}: {bits:#x}");
            assert_eq!(
                byte[i], want as i32 as i8,
                "{name}: {bits:#x}, not saturating"
            );
            assert_eq!(
                byte_saturated[i], want as i8,
                "{name}: {bits:#x}, saturating"
            );
            assert_eq!(
                unsigned[i], want as i32 as u8,
                "{name}: {bits:#x}, not saturating"
            );
            assert_eq!(
                unsigned_saturated[i], want as u8,
                "{name}: {bits:#x}, saturating"
            );
        }
    }
}

#[test]
fn bf16_and_integers_to_floats() {
    let device = device();
    let a = halves();
    let wide = convert(&device, (10, 0, 0), &a, 0f32);
    let int = convert(&device, (11, 2, 0), &a, 0i32);
    for (i, &bits) in region(&a).iter().enumerate() {
        let want = bf16::from_bits(bits).to_f32();
        assert!(
            wide[i].to_bits() == want.to_bits() || want.is_nan(),
            "{bits:#x}"
        );
        assert_eq!(int[i], integral(2, want.into()) as i32, "{bits:#x}");
    }
    let mut rng = Rng::new(4);
    let ints = operands(
        &[0, 1, -1, i32::MAX, i32::MIN, 40000, -40000, 16_777_217],
        || rng.next_u64() as i32,
    );
    let floats = convert(&device, (12, 0, 0), &ints, 0f32);
    let kept = convert(&device, (13, 0, 1), &ints, 0i16);
    let saturated = convert(&device, (13, 0, 2), &ints, 0i16);
    for (i, value) in region(&ints).into_iter().enumerate() {
        assert_eq!(floats[i], value as f32);
        assert_eq!(kept[i], value as i16);
        assert_eq!(saturated[i], value.clamp(-32768, 32767) as i16);
    }
    let shorts: Vec<i16> = ints.iter().map(|&v| v as i16).collect();
    let floats = convert(&device, (14, 0, 0), &shorts, 0f32);
    for (mode, name) in MODES {
        let halves = convert(&device, (15, mode, 0), &shorts, 0u16);
        for (i, value) in region(&shorts).into_iter().enumerate() {
            assert_eq!(floats[i], f32::from(value));
            assert_eq!(
                halves[i],
                narrow(mode, value.into(), f16_value, 0x7c00),
                "{name}: {value}"
            );
        }
    }
    let bytes: Vec<i8> = ints.iter().map(|&v| v as i8).collect();
    let unsigned: Vec<u8> = ints.iter().map(|&v| v as u8).collect();
    let from_signed = convert(&device, (16, 0, 0), &bytes, 0u16);
    let from_unsigned = convert(&device, (17, 0, 0), &unsigned, 0u16);
    for i in 0..from_signed.len() {
        assert_eq!(f16_value(from_signed[i]), region(&bytes)[i].into());
        assert_eq!(f16_value(from_unsigned[i]), region(&unsigned)[i].into());
    }
}
