//! Traces and pictures of fused launches, by the command.

mod common;

use common::{megamoe, stderr, stdout};
use moe_core::StageKind;
use serde_json::Value;

const SIZES: &str =
    "run --world-size 2 --m 20 --k 64 --n 64 --experts 3 --topk 2 --soc Ascend910B1";

fn run(extra: &[&str]) -> std::process::Output {
    let sizes: Vec<&str> = SIZES.split(' ').collect();
    megamoe(&[&sizes[..], extra].concat())
}

#[test]
fn a_trace_has_a_track_for_each_core_spans_and_arrows_and_becomes_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, svg) = (dir.path().join("t.json"), dir.path().join("t.svg"));
    let (trace, svg) = (trace.to_str().unwrap(), svg.to_str().unwrap());
    let output = run(&["--trace", trace]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("beside matrix work"),
        "{}",
        stdout(&output)
    );
    let value: Value = serde_json::from_slice(&std::fs::read(trace).unwrap()).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let count = |phase: &str| events.iter().filter(|e| e["ph"] == phase).count();
    // Two ranks, with 24 matrix and 48 vector cores each.
    assert_eq!(count("M"), 2 * (1 + 24 + 48));
    assert!(count("s") > 0 && count("s") == count("f"));
    for stage in StageKind::ALL.map(|stage| stage.to_string()) {
        let has = |e: &Value| e["ph"] == "X" && e["name"].as_str().unwrap().starts_with(&stage);
        assert!(events.iter().any(has), "no {stage}");
    }
    let output = megamoe(&["timeline", trace, "--svg", svg, "--rank", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        std::fs::read_to_string(svg)
            .unwrap()
            .contains("rank 1: experts in each stage")
    );
    let output = megamoe(&["timeline", trace, "--svg", svg, "--rank", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--rank is 2, but the trace has 2 ranks"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_is_no_trace_and_what_leaves_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.json");
    let file = file.to_str().unwrap();
    for text in ["", "{\"traceEvents\": []}", "[1, 2]"] {
        std::fs::write(file, text).unwrap();
        let output = megamoe(&["timeline", file, "--svg", "x.svg"]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(stderr(&output).contains("t.json"), "{}", stderr(&output));
    }
    let output = run(&["--trace", file, "--stages", "separate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--trace is for --stages fused"));
}

#[test]
fn a_schedule_is_a_preset_or_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    std::fs::write(
        &file,
        "experts_per_wave = 2\n[gmm1]\ncores = \"1/2\"\n[gmm2]\ncores = \"1/2\"\njoin_from = 1\n",
    )
    .unwrap();
    for schedule in ["seed", "stages", "waves", file.to_str().unwrap()] {
        let output = run(&["--schedule", schedule]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    std::fs::write(&file, "[gmm1]\ncores = 25\n").unwrap();
    for (schedule, message) in [
        (
            file.to_str().unwrap(),
            "gmm1.cores is 25, but the device has 1 to 24 matrix cores",
        ),
        ("sed", "\"sed\" is no preset (seed, stages, waves)"),
    ] {
        let output = run(&["--schedule", schedule]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
}
