//! `--device ascend` against a stand-in of CANN: the same bytes as the virtual device, all that is taken is given back,
//! and whatever call fails is named.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use cann_stand_in::control::{self, Report};
use common::{SHARED_CASES, case_dir, stderr, stdout};

/// A machine with NPUs, as far as the command can see.
struct Machine {
    home: tempfile::TempDir,
    reports: tempfile::TempDir,
    variables: BTreeMap<&'static str, String>,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        control::install(home.path()).unwrap();
        let variables = BTreeMap::from([
            ("ASCEND_HOME_PATH", home.path().display().to_string()),
            (
                "MEGAMOE_NPU_KERNELS",
                control::library().display().to_string(),
            ),
            ("HCCL_CONNECT_TIMEOUT", "2".to_owned()),
        ]);
        Self {
            home,
            reports: tempfile::tempdir().unwrap(),
            variables,
        }
    }

    fn with(mut self, variable: &'static str, value: &str) -> Self {
        self.variables.insert(variable, value.to_owned());
        self
    }

    fn without(mut self, variable: &'static str) -> Self {
        self.variables.remove(variable);
        self
    }

    fn megamoe(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_megamoe"));
        for variable in ["RUST_LOG", "ASCEND_TOOLKIT_HOME", "HCCL_BUFFSIZE"] {
            command.env_remove(variable);
        }
        command
            .args(arguments)
            .envs(&self.variables)
            .env("CANN_STAND_IN_REPORT", self.reports.path())
            .current_dir(self.home.path())
            .output()
            .expect("megamoe starts")
    }

    /// Runs on NPUs, which must go well; what each process reports, of which nothing may be left.
    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Vec<Report> {
        let output = self.megamoe(&[&["run", "--device", "ascend"], arguments].concat());
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        self.reports(arguments)
    }

    #[track_caller]
    fn reports(&self, arguments: &[&str]) -> Vec<Report> {
        let reports = Report::read_all(self.reports.path()).unwrap();
        for report in &reports {
            assert!(report.is_clean(), "{arguments:?}: {report:?}");
        }
        for file in std::fs::read_dir(self.reports.path()).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        reports
    }
}

/// Outputs of every rank that a run wrote.
fn outputs(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path());
    let outputs = files.filter(|path| path.to_string_lossy().ends_with("_out.bin"));
    outputs
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect()
}

/// The same run on both devices gives the same bytes; the reports of the NPUs' processes.
#[track_caller]
fn assert_same_bytes(machine: &Machine, problem: &[&str], ranks: &[&str]) -> Vec<Report> {
    let (want, got) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let to = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
    let output = machine.megamoe(&[&["run", "--out", &to(&want)], problem].concat());
    assert!(output.status.success(), "{problem:?}: {}", stderr(&output));
    let reports = machine.run(&[&["--out", &to(&got)], problem, ranks].concat());
    let (want, got) = (outputs(want.path()), outputs(got.path()));
    assert!(!want.is_empty());
    assert!(want == got, "{problem:?} {ranks:?}: outputs differ");
    reports
}

const PROCESSES: [&str; 2] = ["--ranks", "processes"];

#[test]
fn shared_cases_give_the_bytes_of_the_virtual_device() {
    let machine = Machine::new();
    for case in SHARED_CASES {
        let dir = case_dir(case);
        let case = ["--case", dir.to_str().unwrap()];
        let reports = assert_same_bytes(&machine, &case, &PROCESSES);
        assert!(
            reports.len() >= 2,
            "every rank is a process with a runtime of its own"
        );
    }
}

const SMALL: [&str; 12] = [
    "--m",
    "24",
    "--k",
    "256",
    "--n",
    "128",
    "--topk",
    "4",
    "--experts",
    "4",
    "--routing",
    "zipf:1.2",
];

#[test]
fn two_and_eight_processes_fused_and_separate() {
    let machine = Machine::new();
    for num_ranks in ["2", "8"] {
        let problem = [&SMALL[..], &["--world-size", num_ranks]].concat();
        for stages in ["fused", "separate"] {
            let ranks = [&PROCESSES[..], &["--stages", stages]].concat();
            let reports = assert_same_bytes(&machine, &problem, &ranks);
            assert_eq!(reports.len().to_string(), num_ranks);
        }
    }
}

#[test]
fn ranks_may_be_threads_with_an_npu_each() {
    let machine = Machine::new();
    let problem = [&SMALL[..], &["--world-size", "4"]].concat();
    let reports = assert_same_bytes(&machine, &problem, &[]);
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0].calls["HcclCommInitRootInfo"], 4);
}

/// HCCL answers in another layout where NPUs are not fully connected.
#[test]
fn windows_of_a_ring_are_found_too() {
    let machine = Machine::new().with("CANN_STAND_IN_TOPOLOGY", "ring");
    let problem = [&SMALL[..], &["--world-size", "3"]].concat();
    assert_same_bytes(&machine, &problem, &PROCESSES);
}

#[test]
fn a_hundred_launches_take_no_more_memory_than_one() {
    let machine = Machine::new();
    let arguments = [
        &SMALL[..],
        &PROCESSES[..],
        &["--world-size", "2", "--repeat", "100"],
    ]
    .concat();
    for report in machine.run(&arguments) {
        let calls = &report.calls;
        assert_eq!(calls["aclrtEventElapsedTime"], 100, "one for each launch");
        assert_eq!(calls["aclrtMalloc"], calls["aclrtFree"]);
        assert_eq!(calls["HcclCommInitRootInfo"], 1);
    }
}

/// 20000 routes of 4096 columns: 236 MiB.
const WIDE: [&str; 14] = [
    "--world-size",
    "2",
    "--m",
    "5000",
    "--topk",
    "4",
    "--k",
    "4096",
    "--n",
    "64",
    "--experts",
    "4",
    "--verify",
    "none",
];

#[test]
fn hccl_buffsize_is_raised_when_unset_and_refused_when_too_small() {
    let machine = Machine::new();
    let output = machine.megamoe(&[&["run", "--device", "ascend", "-v"], &WIDE[..]].concat());
    let log = stdout(&output) + &stderr(&output);
    assert!(output.status.success(), "{log}");
    assert!(log.contains("raising HCCL_BUFFSIZE to 2"), "{log}");
    let machine = machine.with("HCCL_BUFFSIZE", "200");
    let output = machine.megamoe(&[&["run", "--device", "ascend"], &WIDE[..]].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("set HCCL_BUFFSIZE to at least 2"),
        "{message}"
    );
}

/// What a run calls to make and to do things; a failure of one ends the run.
const NEEDED: [&str; 25] = [
    "aclInit",
    "aclrtGetDeviceCount",
    "aclrtSetDevice",
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtGetSocName",
    "aclrtGetDeviceInfo",
    "aclrtGetHardwareSyncAddr",
    "aclrtCreateStream",
    "aclrtCreateEvent",
    "aclrtRecordEvent",
    "aclrtEventElapsedTime",
    "aclrtSynchronizeStreamWithTimeout",
    "aclrtMalloc",
    "aclrtMemcpy",
    "aclrtMemset",
    "HcclGetRootInfo",
    "HcclCommInitRootInfo",
    "HcclGetRankId",
    "HcclGetRankSize",
    "HcclGetCommName",
    "HcomGetL0TopoTypeEx",
    "HcomGetCommHandleByGroup",
    "HcclAllocComResourceByTiling",
    "HcclBarrier",
];

/// What it calls to give things back; a failure of one is said, and nothing is lost by it.
const GIVING_BACK: [&str; 6] = [
    "aclrtFree",
    "aclrtDestroyEvent",
    "aclrtDestroyStream",
    "aclrtResetDevice",
    "HcclCommDestroy",
    "aclFinalize",
];

/// An injected failure: the code, and its name.
fn code_of(function: &str) -> (&'static str, &'static str) {
    if function.starts_with("acl") {
        ("507899", "ACL_ERROR_RT_DRV_INTERNAL_ERROR")
    } else {
        ("4", "HCCL_E_INTERNAL")
    }
}

fn with_fault(function: &str, nth: u64) -> Machine {
    let (code, _) = code_of(function);
    Machine::new().with("CANN_STAND_IN_FAIL", &format!("{function}:{nth}:{code}"))
}

#[test]
fn every_function_of_a_run_is_in_one_of_the_lists() {
    let machine = Machine::new();
    let reports = machine.run(&[&SMALL[..], &["--world-size", "1"]].concat());
    let called: Vec<_> = reports[0].calls.keys().map(String::as_str).collect();
    let mut listed = [&NEEDED[..], &GIVING_BACK[..]].concat();
    listed.sort_unstable();
    assert_eq!(called, listed);
}

#[test]
fn each_call_fails_in_turn_and_the_error_names_it() {
    let arguments = [
        &["run", "--device", "ascend", "--world-size", "1"],
        &SMALL[..],
    ]
    .concat();
    for function in NEEDED {
        let machine = with_fault(function, 1);
        let output = machine.megamoe(&arguments);
        let message = stderr(&output);
        let code = output.status.code();
        assert!(
            matches!(code, Some(2 | 3)),
            "{function}: status {code:?}: {message}"
        );
        assert!(message.contains(function), "{function}: {message}");
        if function != "aclrtGetSocName" {
            let (_, name) = code_of(function);
            assert!(message.contains(name), "{function}: {message}");
            assert!(
                message.contains("was to fail"),
                "{function}: CANN's own words: {message}"
            );
        }
        machine.reports(&[function]);
    }
}

/// Not only the first call: somewhere in the middle of a run of two processes.
#[test]
fn a_call_that_fails_later_ends_all_ranks() {
    for (function, nth) in [
        ("aclrtMalloc", 9),
        ("aclrtMemcpy", 12),
        ("aclrtSynchronizeStreamWithTimeout", 2),
    ] {
        let machine = with_fault(function, nth);
        let problem = [
            &["run", "--device", "ascend", "--world-size", "2"],
            &SMALL[..],
            &PROCESSES[..],
        ];
        let output = machine.megamoe(&problem.concat());
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{function}: {message}");
        assert!(
            message.contains(function) && message.contains("rank"),
            "{message}"
        );
        machine.reports(&[function]);
    }
}

#[test]
fn what_is_not_taken_back_is_said() {
    let arguments = [
        &["run", "--device", "ascend", "--world-size", "1"],
        &SMALL[..],
    ]
    .concat();
    for function in GIVING_BACK {
        let machine = with_fault(function, 1);
        let output = machine.megamoe(&arguments);
        let log = stderr(&output) + &stdout(&output);
        assert!(output.status.success(), "{function}: {log}");
        assert!(
            log.contains(function) && log.contains("was to fail"),
            "{function}: {log}"
        );
    }
}

/// Status, and what the line of the error has in it.
#[track_caller]
fn assert_refused(machine: &Machine, arguments: &[&str], status: i32, parts: &[&str]) {
    let output = machine.megamoe(
        &[
            &["run", "--device", "ascend", "--world-size", "2"],
            arguments,
        ]
        .concat(),
    );
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let no_kernels = Machine::new().without("MEGAMOE_NPU_KERNELS");
    assert_refused(
        &no_kernels,
        &[],
        2,
        &["--features ascend", "MEGAMOE_NPU_KERNELS"],
    );
    let empty = tempfile::tempdir().unwrap();
    let no_cann = Machine::new().with("ASCEND_HOME_PATH", empty.path().to_str().unwrap());
    assert_refused(&no_cann, &[], 2, &["libascendcl.so", "ASCEND_HOME_PATH"]);
    let one = Machine::new().with("CANN_STAND_IN_NPUS", "1");
    assert_refused(&one, &[], 3, &["rank 1 needs an NPU of its own", "has 1"]);
    let other = Machine::new().with("CANN_STAND_IN_SOC", "Ascend310P3");
    assert_refused(&other, &[], 3, &["Ascend310P3", "known are"]);
    let wrong = Machine::new().with("MEGAMOE_NPU_KERNELS", env!("CARGO_BIN_EXE_megamoe"));
    assert_refused(&wrong, &[], 2, &["kernels for the NPU", "megamoe"]);
    assert_refused(
        &Machine::new(),
        &["--stages", "oracle"],
        2,
        &["--stages oracle", "--device ascend"],
    );
}

#[test]
fn the_doctor_finds_what_is_there_and_how_to_get_the_rest() {
    let machine = Machine::new();
    let output = machine.megamoe(&["doctor", "--json"]);
    assert!(output.status.success(), "{}", stdout(&output));
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["ascend_ready"], true);
    machine.reports(&["doctor"]);

    for function in ["aclrtGetVersion", "aclrtGetMemInfo"] {
        let output = with_fault(function, 1).megamoe(&["doctor"]);
        assert!(stdout(&output).contains(function), "{}", stdout(&output));
    }

    let machine = machine
        .without("ASCEND_HOME_PATH")
        .without("MEGAMOE_NPU_KERNELS");
    let output = machine.megamoe(&["doctor"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "MISSING  CANN",
        "ASCEND_HOME_PATH",
        "MISSING  kernels",
        "--features ascend",
        "does not",
    ] {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}
