//! Ranks as threads and as processes give the same bytes, and a failed rank ends the run.

mod common;

use std::process::{Command, Stdio};

use common::{SHARED_CASES, case_dir, megamoe, stderr, stdout};

fn outputs(ranks: &str, kind: &str, stages: &str) -> Vec<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let sizes = "--m 9 --k 96 --n 64 --topk 3 --experts 3 --repeat 3 --warmup 1";
    let mut arguments = vec![
        "run",
        "--world-size",
        ranks,
        "--ranks",
        kind,
        "--stages",
        stages,
    ];
    arguments.extend(sizes.split(' '));
    arguments.extend(["--out", out.to_str().unwrap()]);
    let output = megamoe(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("verified: ok"));
    let ranks: u32 = ranks.parse().unwrap();
    let read = |rank| std::fs::read(out.join(format!("rank{rank}_out.bin"))).unwrap();
    (0..ranks).map(read).collect()
}

#[test]
fn worlds_of_any_size_as_threads_and_as_processes_give_the_same_bytes() {
    for ranks in ["1", "2", "3", "8", "16"] {
        let want = outputs(ranks, "threads", "oracle");
        for (kind, stages) in [
            ("processes", "oracle"),
            ("threads", "separate"),
            ("processes", "separate"),
            ("threads", "fused"),
            ("processes", "fused"),
        ] {
            assert_eq!(outputs(ranks, kind, stages), want, "{kind}, {stages}");
        }
    }
}

#[test]
fn shared_cases_run_as_processes_on_every_set_of_stages() {
    for name in SHARED_CASES {
        let case = case_dir(name);
        for stages in ["fused", "separate", "oracle"] {
            let arguments = ["run", "--ranks", "processes", "--stages", stages, "--case"];
            let output = megamoe(&[&arguments[..], &[case.to_str().unwrap()]].concat());
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(0), "{name}, {stages}: {message}");
        }
    }
}

#[test]
fn a_window_that_is_too_small_says_what_it_needs() {
    for command in ["run", "plan"] {
        let output = megamoe(&[
            command,
            "--preset",
            "seed-16",
            "--m",
            "1",
            "--window-bytes",
            "4096",
        ]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("HCCL_BUFFSIZE to at least 1 (MB)"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn plan_prints_windows_and_memory() {
    let output = megamoe(&["plan", "--preset", "seed-2048"]);
    let text = stdout(&output);
    for part in [
        "HCCL_BUFFSIZE=337",
        "packed_rows",
        "rank 7: weights",
        "front-multi-core",
        "combine-large",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// Kills one rank of a long run: the others say whose fault it was, and none is left.
#[test]
fn a_killed_rank_ends_the_run_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_megamoe"));
    run.args([
        "run",
        "--ranks",
        "processes",
        "--repeat",
        "1000000",
        "--m",
        "8",
        "--k",
        "64",
        "--n",
        "64",
    ])
    .current_dir(dir.path())
    .stdout(Stdio::null())
    .stderr(Stdio::piped());
    let run = run.spawn().unwrap();
    let children = || {
        let path = format!("/proc/{0}/task/{0}/children", run.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect::<Vec<i32>>()
    };
    while children().len() < 4 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let ranks = children();
    let victim = rustix::process::Pid::from_raw(ranks[2]).unwrap();
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("rank 2 failed: its process was killed by signal 9"),
        "{message}"
    );
    for pid in ranks {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "rank {pid} is left"
        );
    }
}
