//! `megamoe bench`: what it prints is whole, and its processes are ranks of the same case.

mod common;

use common::{megamoe, stderr, stdout};
use serde_json::Value;

#[test]
fn figures_are_shares_of_what_the_same_run_measured() {
    let output = megamoe(&["bench", "guard", "launch", "--json", "--seed", "3"]);
    // A ratio that does not hold is 1, and says nothing of the report.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{}",
        stderr(&output)
    );
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["seed"], 3);
    assert!(report["commit"].as_str().is_some_and(|c| !c.is_empty()));
    let machine = &report["machine"];
    assert!(machine["cpu"].is_string() && machine["threads"].as_u64().unwrap() > 0);
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&machine["read_gb_per_s"]) > 0.0 && number(&machine["copy_gb_per_s"]) > 0.0);
    let case = &report["cases"][0];
    assert_eq!(case["same_bits"], true);
    assert_eq!(case["stages"].as_array().unwrap().len(), 7);
    let peak = number(&machine["int8_gops"]);
    if peak > 0.0 {
        let share = number(&case["gops"]) / peak;
        assert!((number(&case["peak_share"]) - share).abs() < 1e-9);
    }
    assert!(number(&case["fused_p99_ms"]) >= number(&case["fused_ms"]));
    assert!(number(&report["launch"]["p50_ms"]) > 0.0);
}

#[test]
fn processes_run_the_same_case_as_threads() {
    let output = megamoe(&["bench", "ranks", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for kind in ["threads_ms", "processes_ms"] {
        assert!(report["ranks"][kind].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn a_suite_that_is_none_is_refused() {
    let output = megamoe(&["bench", "all"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("goals"), "{}", stderr(&output));
}
