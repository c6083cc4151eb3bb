//! The feature `ascend`, with a compiler in bisheng's place that writes down what it is asked, and without one.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Builds this crate's library with the feature, beside the build that runs this test.
fn build(home: &Path, path: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO"));
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = path
        .map(PathBuf::from)
        .into_iter()
        .chain(std::env::split_paths(&paths));
    command
        .args([
            "build",
            "--package",
            "megamoe-pipeline",
            "--lib",
            "--features",
            "ascend",
        ])
        .args(["--offline", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ASCEND_HOME_PATH", home)
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env_remove("PTO_ISA_PATH")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo starts")
}

/// A folder like CANN's with a compiler beside it, on PATH, that notes each call as a line and makes its output.
fn cann_and_compiler(place: &Path) -> (PathBuf, PathBuf) {
    let (home, path) = (place.join("cann"), place.join("path"));
    for folder in [
        home.join("include/pto"),
        home.join("asc/include"),
        home.join("lib64"),
        path.clone(),
    ] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(home.join("include/pto/pto-inst.hpp"), "").unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {}\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && : > \"$2\"; shift; done\n",
        place.join("calls").display()
    );
    let compiler = path.join("bisheng");
    std::fs::write(&compiler, script).unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    (home, path)
}

/// What follows an argument in a call, each time it is there.
fn after<'c>(call: &'c str, argument: &str) -> Vec<&'c str> {
    let words: Vec<_> = call.split(' ').collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == argument);
    pairs.map(|pair| pair[1]).collect()
}

fn name(path: &str) -> String {
    Path::new(path)
        .file_name()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

// One test, because the builds share a folder.
#[test]
fn kernels_for_npus_are_built_from_every_source_or_not_at_all() {
    let output = build(Path::new("/no/such/cann"), None);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    let sentence = "the feature `ascend` builds kernels for the NPU, but ASCEND_HOME_PATH is \"/no/such/cann\", which is \
                    no folder";
    assert!(message.contains(sentence), "{message}");

    let place = tempfile::tempdir().unwrap();
    let (home, path) = cann_and_compiler(place.path());
    let output = build(&home, Some(&path));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");

    let calls = std::fs::read_to_string(place.path().join("calls")).unwrap();
    let (compilations, links): (Vec<_>, Vec<_>) =
        calls.lines().partition(|call| call.contains(" -c "));
    let sources: BTreeSet<_> = compilations
        .iter()
        .map(|call| name(after(call, "-c")[0]))
        .collect();
    let want = [
        "combine.cpp",
        "dispatch.cpp",
        "front_reorder.cpp",
        "gmm.cpp",
        "megamoe_fused_gelu.cpp",
        "megamoe_fused_silu.cpp",
        "swiglu.cpp",
        "unpermute.cpp",
    ];
    assert_eq!(sources, want.map(str::to_owned).into());
    assert_eq!(compilations.len(), want.len(), "each of them once");
    for call in &compilations {
        assert_includes(&after(call, "-I"), &home);
        assert!(
            call.contains("-xcce") && call.contains("--cce-aicore-arch=dav-c220"),
            "{call}"
        );
    }
    let [link] = links[..] else {
        panic!("one library: {links:?}");
    };
    assert!(
        link.contains("--cce-fatobj-link") && link.ends_with("libmegamoe_npu_kernels.so"),
        "{link}"
    );
    let objects = link.split(' ').filter(|word| word.ends_with(".o"));
    assert_eq!(objects.count(), want.len());
}

/// PTO's headers, then the kernels' own and generated ones, then AscendC's; never those of the virtual device.
#[track_caller]
fn assert_includes(folders: &[&str], home: &Path) {
    let place = |folder: &Path| {
        let found = folders.iter().position(|other| Path::new(other) == folder);
        found.unwrap_or_else(|| panic!("{} is not in {folders:?}", folder.display()))
    };
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let own = [
        "swiglu/kernel",
        "moe-core/kernel",
        "window/kernel",
        "pipeline/kernel",
    ];
    assert_eq!(place(&home.join("include")), 0);
    for folder in own {
        assert!(
            place(&crates.join(folder)) < place(&home.join("asc/include")),
            "{folders:?}"
        );
    }
    let host = crates.join("device/include");
    assert!(
        !folders.iter().any(|folder| Path::new(folder) == host),
        "{folders:?}"
    );
}
