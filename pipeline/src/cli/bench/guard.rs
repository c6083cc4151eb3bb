//! Ratios of one run that must hold: they do not depend on how fast the machine is, only on what the code does.

use megamoe_bench::peak::Int8Peak;
use megamoe_bench::tile::Tile;
use megamoe_bench::{best_time, gops};
use megamoe_device::compute::Level;
use serde::Serialize;

use super::figures::Figures;

/// A ratio and where it must lie.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Ratio {
    /// What it is.
    pub(super) name: &'static str,
    /// What was measured.
    pub(super) value: f64,
    /// Smallest that is accepted.
    pub(super) min: f64,
    /// Largest that is accepted.
    pub(super) max: f64,
}

impl Ratio {
    /// Whether it lies there.
    pub(super) fn holds(&self) -> bool {
        (self.min..=self.max).contains(&self.value)
    }
}

/// Limits are far enough from what an idle machine gives (0.9 to 1.05, above 0.9, about 0.5) that neighbours do not
/// trip them, and near enough that losing the vector instructions or the overlap does.
pub(super) fn ratios(layer: &Figures) -> Vec<Ratio> {
    let fused = Ratio {
        name: "fused / separate",
        value: layer.fused_of_separate,
        min: 0.0,
        max: 1.5,
    };
    let of_peak = Int8Peak::of_this_machine().map(|peak| {
        [
            Ratio {
                name: "tile product / int8 peak",
                value: tile_gops() / peak.gops(),
                min: 0.7,
                max: 1.1,
            },
            Ratio {
                name: "layer / int8 peak",
                value: layer.peak_share,
                min: 0.15,
                max: 1.1,
            },
        ]
    });
    [fused]
        .into_iter()
        .chain(of_peak.into_iter().flatten())
        .collect()
}

fn tile_gops() -> f64 {
    let level = Level::detect();
    let mut tile = Tile::new(128, 512, 2048);
    gops(
        tile.operations(),
        best_time(20, 10, || tile.multiply(level)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_beyond_its_limits_does_not_hold() {
        let of = |value| Ratio {
            name: "r",
            value,
            min: 0.5,
            max: 1.0,
        };
        assert!(of(0.5).holds() && of(1.0).holds());
        assert!(!of(0.49).holds() && !of(1.01).holds() && !of(f64::NAN).holds());
    }
}
