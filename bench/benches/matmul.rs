//! int8 matrix tiles of the virtual device against the machine's peak, on one core.
//!
//! `cargo bench -p megamoe-bench --bench matmul`

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use megamoe_bench::peak::Int8Peak;
use megamoe_bench::tile::Tile;
use megamoe_bench::{best_time, gops};
use megamoe_device::compute::Level;

fn main() {
    let level = Level::detect();
    let peak = Int8Peak::of_this_machine().map(|peak| peak.gops());
    match peak {
        Some(peak) => println!("peak of one core, {level:?}: {peak:.1} GOPS"),
        None => println!("no register-only loop for {level:?}: ratios are left out"),
    }
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "m x n x k",
        "product GOPS",
        "of peak",
        "with extraction GOPS",
        "of peak",
    ]);
    for (m, n, k) in [
        (256, 512, 2048),
        (128, 512, 2048),
        (128, 256, 512),
        (128, 256, 128),
        (16, 256, 512),
        (12, 256, 512),
        (1, 256, 512),
    ] {
        let mut tile = Tile::new(m, n, k);
        let product = gops(
            tile.operations(),
            best_time(20, 200, || tile.multiply(level)),
        );
        let whole = best_time(20, 200, || {
            tile.extract(level);
            tile.multiply(level);
        });
        let whole = gops(tile.operations(), whole);
        let share = |value: f64| {
            peak.map_or_else(String::new, |peak| format!("{:.1} %", 100.0 * value / peak))
        };
        table.add_row([
            format!("{m} x {n} x {k}"),
            format!("{product:.1}"),
            share(product),
            format!("{whole:.1}"),
            share(whole),
        ]);
    }
    println!("{table}");
}
