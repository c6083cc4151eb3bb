//! The oracle against the formula in double precision.

use half::f16;
use megamoe_swiglu::reference::{Activation, ActivationOptions, swiglu};
use proptest::prelude::*;

fn true_value(up: f64, gate: f64, options: ActivationOptions) -> f64 {
    let limit = f64::from(options.limit.unwrap_or(f32::INFINITY));
    let (up, gate) = (up.min(limit), gate.clamp(-limit, limit));
    let activated = match options.activation {
        Activation::Silu => up / (1.0 + (-up).exp()),
        Activation::Gelu => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (up + 0.044_715 * up.powi(3));
            0.5 * up * (1.0 + u.tanh())
        }
    };
    activated * gate
}

proptest! {
    #[test]
    fn a_quantised_row_is_within_half_a_step(
        row in proptest::collection::vec(-8.0f32..8.0, 64),
        scale in 0.01f32..2.0,
        gelu: bool,
        limit in proptest::option::of(0.5f32..10.0),
    ) {
        let activation = if gelu { Activation::Gelu } else { Activation::Silu };
        let options = ActivationOptions { activation, limit };
        let h: Vec<f16> = row.iter().map(|&v| f16::from_f32(v)).collect();
        let out = swiglu(32, &h, &[scale], options);
        for j in 0..32 {
            let value = |i: usize| f64::from(h[i].to_f32()) * f64::from(scale);
            let want = true_value(value(j), value(32 + j), options);
            let got = f64::from(out.q[j]) * f64::from(out.q_scale[0]);
            let step = f64::from(out.q_scale[0]);
            prop_assert!((got - want).abs() <= step * 0.5001 + 1e-6, "{} {} step {}", got, want, step);
        }
        prop_assert!(out.q.iter().any(|&q| q.unsigned_abs() == 127));
    }
}

#[test]
fn a_bad_row_stays_alone() {
    let mut h = vec![f16::from_f32(1.0); 3 * 64];
    h[64 + 3] = f16::NAN;
    let clean = swiglu(32, &h[..64], &[1.0], ActivationOptions::default());
    let out = swiglu(32, &h, &[1.0; 3], ActivationOptions::default());
    assert!(out.q_scale[1].is_nan());
    for row in [0, 2] {
        assert_eq!(out.q[row * 32..(row + 1) * 32], clean.q[..]);
        assert_eq!(out.q_scale[row], clean.q_scale[0]);
    }
}

#[test]
fn a_limit_lets_a_nan_through() {
    let mut h = vec![f16::from_f32(1.0); 64];
    h[0] = f16::NAN;
    let options = ActivationOptions {
        limit: Some(7.0),
        ..ActivationOptions::default()
    };
    assert!(swiglu(32, &h, &[1.0], options).q_scale[0].is_nan());
}
