//! The shared cases, whose expected outputs the published kernel computed.

mod common;

use common::{SHARED_CASES, case_dir, megamoe, stderr, stdout};
use megamoe_pipeline::case::{Case, DataSource, Description, files};
use megamoe_pipeline::generate::{DataSpec, RoutingSource};
use megamoe_pipeline::verify::{Comparison, Tolerance};
use moe_core::FloatType;
use moe_core::data::DataKind;
use moe_core::routing::RoutingKind;

#[test]
fn shared_cases_equal_the_published_kernel() {
    for name in SHARED_CASES {
        let case = Case::read(&case_dir(name), &|| ()).unwrap();
        let expected = case.expected.expect("the case has expected outputs");
        let out = common::layer(&case.problem, &case.inputs);
        let (float, hidden) = (case.problem.output_type(), case.problem.hidden());
        let comparison = Comparison::of(float, hidden, &out, &expected);
        assert!(
            comparison.bit_equal_share() >= 0.9999,
            "{name}: {comparison:?}"
        );
        assert!(comparison.rel_frobenius <= 1e-5, "{name}: {comparison:?}");
    }
}

#[test]
fn the_command_verifies_the_shared_cases() {
    for name in SHARED_CASES {
        let output = megamoe(&["run", "--case", case_dir(name).to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
        assert!(
            stdout(&output).contains("verified: ok"),
            "{name}: {}",
            stdout(&output)
        );
    }
}

/// The generator follows the published writer's rule bit for bit, the expected outputs included.
#[test]
fn gen_writes_the_published_files_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let sizes = "--world-size 2 --m 16 --k 128 --n 128 --topk 2 --experts 8 --max-output-size 64";
    let mut arguments = vec!["gen", made.to_str().unwrap()];
    arguments.extend(sizes.split(' '));
    let output = megamoe(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));

    let names = |dir: &std::path::Path| {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let published = case_dir("balanced-fullload");
    assert_eq!(names(&made), names(&published));
    for name in names(&published) {
        let read = |dir: &std::path::Path| std::fs::read(dir.join(&name)).unwrap();
        assert!(
            read(&made) == read(&published),
            "{} differs",
            name.display()
        );
    }
}

#[test]
fn a_written_case_reads_back_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let sources = [
        DataSource::Files,
        DataSource::Generated(DataSpec {
            kind: DataKind::Random,
            routing: RoutingSource::Made(RoutingKind::Zipf(1.25)),
            seed: 7,
        }),
        DataSource::Generated(DataSpec {
            kind: DataKind::Synthetic,
            routing: RoutingSource::Files("recorded".into()),
            seed: 0,
        }),
    ];
    for (number, data) in sources.into_iter().enumerate() {
        let mut spec = common::spec(&[3, 0, 2], 2);
        spec.output_type = FloatType::Bf16;
        let written = Description {
            spec,
            data,
            tolerance: Tolerance::EXACT,
        };
        let dir = dir.path().join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        written.write(&dir).unwrap();
        assert_eq!(Description::read(&dir).unwrap(), written);
        assert!(dir.join("case.toml").is_file());
        assert!(written.write_new(&dir).is_ok(), "the same case again");
        let other = Description {
            tolerance: Tolerance::PUBLISHED,
            ..written
        };
        assert!(
            other
                .write_new(&dir)
                .unwrap_err()
                .to_string()
                .contains("another case")
        );
    }
}

/// `run --out` leaves a folder that `verify` understands by itself, and `verify` sees a changed bit.
#[test]
fn verify_accepts_a_run_and_refuses_a_changed_one() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let out_name = out.to_str().unwrap();
    let sizes = "--world-size 2 --m 5 --k 64 --n 64 --topk 2 --experts 4 --out";
    let mut arguments = vec!["run"];
    arguments.extend(sizes.split(' '));
    arguments.push(out_name);
    assert_eq!(megamoe(&arguments).status.code(), Some(0));
    assert_eq!(megamoe(&["verify", out_name]).status.code(), Some(0));

    let file = files::path(&out, 1, files::OUT);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[2 * 64 + 1] ^= 0x04;
    std::fs::write(&file, bytes).unwrap();
    let changed = megamoe(&["verify", out_name]);
    assert_eq!(changed.status.code(), Some(1));
    let text = stdout(&changed);
    assert!(
        text.contains("WRONG") && text.contains("rank 1 token 1 column 0"),
        "{text}"
    );
}

#[test]
fn routing_can_come_from_a_folder() {
    let published = case_dir("few-experts");
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let routing = format!("file:{}", published.display());
    let sizes = "--world-size 4 --m 16 --k 64 --n 64 --topk 4 --experts 8";
    let mut arguments = vec!["gen", made.to_str().unwrap(), "--routing", &routing];
    arguments.extend(sizes.split(' '));
    let output = megamoe(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let read = |dir: &std::path::Path| std::fs::read(files::path(dir, 3, "expert_idx")).unwrap();
    assert_eq!(read(&made), read(&published));
}
