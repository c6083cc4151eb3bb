//! What the command refuses: one clear line, and exit status 2.

mod common;

use std::path::Path;

use common::{case_dir, megamoe, stderr, stdout};

/// A copy of a shared case that a test may spoil.
fn copy_case() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(case_dir("balanced-fullload")).unwrap() {
        let entry = entry.unwrap();
        std::fs::write(
            copy.path().join(entry.file_name()),
            std::fs::read(entry.path()).unwrap(),
        )
        .unwrap();
    }
    copy
}

#[track_caller]
fn assert_refused(arguments: &[&str], parts: &[&str]) {
    let output = megamoe(arguments);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert_eq!(
        message.trim_end().lines().count(),
        1,
        "{arguments:?}: {message}"
    );
    for part in parts {
        assert!(
            message.contains(part),
            "{arguments:?}: {part:?} is not in: {message}"
        );
    }
}

#[track_caller]
fn assert_case_refused(dir: &Path, parts: &[&str]) {
    assert_refused(&["run", "--case", dir.to_str().unwrap()], parts);
}

#[test]
fn a_missing_folder_and_a_folder_without_a_description() {
    assert_case_refused(
        Path::new("no-such-folder"),
        &["no-such-folder", "No such file"],
    );
    let empty = tempfile::tempdir().unwrap();
    assert_case_refused(empty.path(), &["no case.json and no case.toml"]);
}

#[test]
fn every_array_file_missing_truncated_or_too_long() {
    let arrays = [
        "x",
        "weight1",
        "weight2",
        "expert_idx",
        "scale1",
        "scale2",
        "probs",
    ];
    for array in arrays {
        let case = copy_case();
        let name = format!("rank1_{array}.bin");
        let file = case.path().join(&name);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let (short, want) = ((bytes.len() - 1).to_string(), bytes.len().to_string());
        assert_case_refused(case.path(), &[&name, &short, &want]);
        std::fs::write(&file, [bytes.as_slice(), &[0]].concat()).unwrap();
        assert_case_refused(case.path(), &[&name, &(bytes.len() + 1).to_string(), &want]);
        std::fs::remove_file(&file).unwrap();
        assert_case_refused(case.path(), &[&name, "No such file"]);
    }
}

#[test]
fn one_expected_output_missing() {
    let case = copy_case();
    std::fs::remove_file(case.path().join("rank1_expected_out.bin")).unwrap();
    assert_case_refused(case.path(), &["rank1_expected_out.bin", "No such file"]);
}

fn set_id(case: &Path, index: usize, id: i32) {
    let file = case.join("rank0_expert_idx.bin");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[4 * index..4 * index + 4].copy_from_slice(&id.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn an_expert_id_out_of_range() {
    for id in [16, -2, i32::MIN, i32::MAX] {
        let case = copy_case();
        set_id(case.path(), 5, id);
        assert_case_refused(
            case.path(),
            &["rank 0, token 2, slot 1", &id.to_string(), "0..16", "-1"],
        );
    }
}

#[test]
fn an_expert_id_of_minus_one_is_legal() {
    let case = copy_case();
    set_id(case.path(), 5, -1);
    for rank in 0..2 {
        std::fs::remove_file(case.path().join(format!("rank{rank}_expected_out.bin"))).unwrap();
    }
    let output = megamoe(&["run", "--case", case.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_prob_that_is_not_finite() {
    for prob in [f32::NAN, f32::INFINITY] {
        let case = copy_case();
        let file = case.path().join("rank1_probs.bin");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[12..16].copy_from_slice(&prob.to_le_bytes());
        std::fs::write(file, bytes).unwrap();
        assert_case_refused(
            case.path(),
            &["rank 1, token 1, slot 1", &prob.to_string(), "finite"],
        );
    }
}

fn spoil_json(from: &str, to: &str) -> tempfile::TempDir {
    let case = copy_case();
    let file = case.path().join("case.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from));
    std::fs::write(file, text.replace(from, to)).unwrap();
    case
}

#[test]
fn a_description_with_unknown_missing_or_bad_fields() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        assert_case_refused(
            spoil_json(from, to).path(),
            &[&["case.json"], parts].concat(),
        );
    };
    refused(
        "\"m\": 16,",
        "\"m\": 16, \"mm\": 1,",
        &["unknown field `mm`"],
    );
    refused("\"m\": 16,", "", &["missing field `m`"]);
    refused("\"m\": 16,", "\"m\": -16,", &["-16"]);
    refused("\"m\": 16,", "\"m\": 16", &["expected"]);
    refused(
        "\"data_cache_version\": 2",
        "\"data_cache_version\": 3",
        &["data_cache_version is 3", "2"],
    );
    refused("\"n\": 128", "\"n\": 127", &["n is 127", "even"]);
    refused(
        "\"k\": 128",
        "\"k\": 4294967297",
        &["k is 4294967297", "4294967295"],
    );
}

#[test]
fn a_toml_description_with_unknown_or_missing_fields() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("case.toml");
    std::fs::write(&file, "[problem]\nhidden = 32\n").unwrap();
    assert_case_refused(dir.path(), &["case.toml", "missing field"]);
    std::fs::write(&file, "[problems]\nhidden = 32\n").unwrap();
    assert_case_refused(dir.path(), &["case.toml", "problems"]);
}

#[test]
fn sizes_out_of_range() {
    let refused = |sizes: &str, parts: &[&str]| {
        let arguments: Vec<&str> = ["run"].into_iter().chain(sizes.split(' ')).collect();
        assert_refused(&arguments, parts);
    };
    refused("--k 100", &["hidden (K) is 100", "multiple of 32"]);
    refused("--n 72", &["is 72", "multiple of 64"]);
    refused("--n 65", &["--n is 65", "even"]);
    refused("--k 0", &["hidden (K) is 0", "at least"]);
    refused("--world-size 0", &["ranks is 0", "at least 1"]);
    refused(
        "--world-size 4000000000",
        &["--world-size is 4000000000", "at most 1024"],
    );
    refused("--experts 0", &["experts per rank is 0", "at least 1"]);
    refused("--experts 4096", &["at most 4096"]);
    refused("--topk 0", &["top_k is 0", "at least 1"]);
    refused(
        "--world-size 1 --experts 4 --topk 5",
        &["top_k is 5", "at most 4", "experts"],
    );
    refused(
        "--m 100 --topk 4 --max-output-size 399",
        &["max_output_size is 399", "at least 400", "100 x 4"],
    );
    refused(
        "--m 4294967295 --topk 8",
        &["137438953440", "at most 2139095039", "tokens x top_k"],
    );
    refused("--routing few:2", &["few:2", "top_k = 4"]);
    refused("--routing file:nowhere", &["nowhere", "No such file"]);
    refused("--reuse-data --routing file:nowhere", &["--reuse-data"]);
}

#[test]
fn data_options_beside_a_case() {
    let case = case_dir("balanced-fullload");
    let case = case.to_str().unwrap();
    assert_refused(
        &["run", "--case", case, "--routing", "uniform"],
        &["--routing", "--case"],
    );
    assert_refused(
        &["run", "--case", case, "--data", "random"],
        &["--data", "--case"],
    );
    let output = megamoe(&["run", "--case", case, "--m", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot be used with"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn rows_beyond_a_capacity_are_refused_unless_allowed() {
    let sizes = "run --world-size 2 --m 8 --k 32 --n 64 --topk 1 --experts 2 --max-output-size 8 \
                 --routing few:1";
    let arguments: Vec<&str> = sizes.split_whitespace().collect();
    assert_refused(
        &arguments,
        &[
            "max_output_size is too small",
            "8 rows",
            "rank 0 drops 8",
            "--allow-drop",
        ],
    );
    let allowed = megamoe(&[arguments.as_slice(), &["--allow-drop"]].concat());
    assert_eq!(allowed.status.code(), Some(0), "{}", stderr(&allowed));
    assert!(
        stdout(&allowed).contains("dropped rows: 8"),
        "{}",
        stdout(&allowed)
    );
}

#[test]
fn a_wrong_expected_output_is_status_one() {
    let case = copy_case();
    let file = case.path().join("rank0_expected_out.bin");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[1] ^= 0x40;
    std::fs::write(file, bytes).unwrap();
    let output = megamoe(&["run", "--case", case.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("rank 0 token 0 column 0"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_folder_that_exists_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    assert_refused(&["gen", dir.path().to_str().unwrap()], &["exists already"]);
}

#[test]
fn json_output_parses() {
    let output = megamoe(&["run", "--m", "4", "--k", "32", "--n", "64", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verified"]["right"], true);
    assert_eq!(report["load"]["rows_per_rank"].as_array().unwrap().len(), 4);
}

#[test]
fn reused_data_gives_the_same_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = |seed: &str| {
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_megamoe"))
            .args([
                "run",
                "--m",
                "4",
                "--k",
                "32",
                "--n",
                "64",
                "--reuse-data",
                "--seed",
                seed,
            ])
            .current_dir(dir.path())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0));
    };
    let kept = || std::fs::read_dir(dir.path().join("out")).unwrap().count();
    run("1");
    run("1");
    assert_eq!(kept(), 1);
    run("2");
    assert_eq!(kept(), 2, "another seed is another folder");
}

#[test]
fn a_routing_that_is_none() {
    let output = megamoe(&["run", "--routing", "zipf:x"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("use balanced, uniform, zipf:S, few:N or file:DIR"));
}
