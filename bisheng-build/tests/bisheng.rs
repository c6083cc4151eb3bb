//! What is asked of CANN's compiler: flags, include folders and their order, and what is said when it is not there.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bisheng_build::{Bisheng, NoBisheng};
use bisheng_sys::CannHome;

/// A folder as CANN 9 makes it, with headers linked to those of the platform.
fn installed() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in [
        "cann/bin",
        "cann/lib64",
        "cann/pkg_inc/runtime",
        "cann/x86_64-linux/include/pto",
        "cann/x86_64-linux/asc/include/basic_api",
    ] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
    }
    let home = place.path().join("cann");
    std::os::unix::fs::symlink("x86_64-linux/include", home.join("include")).unwrap();
    fs::write(home.join("include/pto/pto-inst.hpp"), "").unwrap();
    compiler(&home.join("bin/bisheng"));
    place
}

fn compiler(path: &Path) {
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn home_of(place: &tempfile::TempDir) -> CannHome {
    let home = place.path().join("cann");
    CannHome::find_in(
        |name| (name == "ASCEND_HOME_PATH").then(|| home.clone().into()),
        place.path(),
    )
    .unwrap()
}

fn nothing(_: &str) -> Option<OsString> {
    None
}

fn arguments(command: &Command) -> Vec<String> {
    command
        .get_args()
        .map(|argument| argument.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_source_is_compiled_as_the_published_kernel_is() {
    let place = installed();
    let bisheng = Bisheng::find_in(&home_of(&place), nothing).unwrap();
    let kernels = tempfile::tempdir().unwrap();
    let command = bisheng.compile(
        Path::new("swiglu.cpp"),
        Path::new("swiglu.o"),
        &[kernels.path().to_owned(), PathBuf::from("/no/such/folder")],
    );
    let home = place.path().join("cann");
    let platform = home.join("x86_64-linux").canonicalize().unwrap();
    let mut want: Vec<String> =
        "-D_FORTIFY_SOURCE=2 -O2 -std=c++17 -Wno-macro-redefined -Wno-ignored-attributes \
         -fstack-protector-strong -fPIC -xcce -Xhost-start -Xhost-end \
         -mllvm -cce-aicore-stack-size=0x8000 -mllvm -cce-aicore-function-stack-size=0x8000 \
         -mllvm -cce-aicore-record-overflow=true -mllvm -cce-aicore-addr-transform \
         -mllvm -cce-aicore-dcci-insert-for-scalar=false --cce-aicore-arch=dav-c220 \
         -DPTO_NPU_ARCH_A2A3 -DMEGAMOE_NPU"
            .split_whitespace()
            .map(str::to_owned)
            .collect();
    for folder in [
        home.join("include"),
        kernels.path().to_owned(),
        platform.join("asc"),
        platform.join("asc/include"),
        platform.join("asc/include/basic_api"),
        home.join("pkg_inc"),
        home.join("pkg_inc/runtime"),
    ] {
        want.extend(["-I".to_owned(), folder.to_str().unwrap().to_owned()]);
    }
    want.extend(["-c", "swiglu.cpp", "-o", "swiglu.o"].map(str::to_owned));
    assert_eq!(arguments(&command), want);
    assert_eq!(command.get_program(), home.join("bin/bisheng"));
}

#[test]
fn objects_are_linked_into_one_library_with_the_devices_code_in_it() {
    let place = installed();
    let bisheng = Bisheng::find_in(&home_of(&place), nothing).unwrap();
    let command = bisheng.link(&["a.o".into(), "b.o".into()], Path::new("libkernels.so"));
    let libraries = place.path().join("cann/lib64");
    let want = [
        "a.o",
        "b.o",
        "-L",
        libraries.to_str().unwrap(),
        "-shared",
        "--cce-fatobj-link",
        "-s",
        "-Wl,-z,relro",
        "-Wl,-z,now",
        "-lruntime",
        "-o",
        "libkernels.so",
    ];
    assert_eq!(arguments(&command), want);
}

#[test]
fn a_compiler_on_path_and_pto_headers_of_ones_own_will_do() {
    let place = installed();
    let home = place.path().join("cann");
    fs::remove_file(home.join("bin/bisheng")).unwrap();
    let error = Bisheng::find_in(&home_of(&place), nothing).unwrap_err();
    assert!(matches!(error, NoBisheng::NoCompiler { .. }));
    assert!(
        error
            .to_string()
            .contains("compiler/ccec_compiler/bin/bisheng"),
        "{error}"
    );

    let (path, pto) = (place.path().join("path"), place.path().join("pto"));
    fs::create_dir_all(&path).unwrap();
    compiler(&path.join("bisheng"));
    let environment = |name: &str| match name {
        "PATH" => Some(OsString::from(format!("/no/such:{}", path.display()))),
        "PTO_ISA_PATH" => Some(pto.clone().into()),
        _ => None,
    };
    let error = Bisheng::find_in(&home_of(&place), environment)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("PTO_ISA_PATH") && error.contains("pto/pto-inst.hpp"),
        "{error}"
    );

    fs::create_dir_all(pto.join("include/pto")).unwrap();
    fs::write(pto.join("include/pto/pto-inst.hpp"), "").unwrap();
    let bisheng = Bisheng::find_in(&home_of(&place), environment).unwrap();
    assert_eq!(bisheng.compiler(), path.join("bisheng"));
    let all = arguments(&bisheng.compile(Path::new("a"), Path::new("b"), &[]));
    let first = all.iter().position(|argument| argument == "-I").unwrap();
    assert_eq!(
        all[first + 1],
        pto.join("include").to_str().unwrap(),
        "before CANN's own"
    );
}
