//! Kernels for checked mode: compiled so that loads and stores of the scalar unit can be seen, and kept apart from the
//! same kernels for fast mode.
//!
//! The compiler's own instrumentation calls a function at every load and store. Those calls, and calls of the tile API,
//! are given other names, behind which checked mode waits (`device/src/checked/hooks.cpp`). All other symbols but the
//! entry points become invisible: fast and checked code share names that a linker would take for one and the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compile::{BuildError, host_compiler, kernel_compiler, out_dir};

/// What defines checked mode for headers.
const DEFINE: &str = "MEGAMOE_CHECKED";

/// Instructions and questions that checked mode looks at, named `megamoe_dev_..` in headers.
const INSTRUCTIONS: [&str; 27] = [
    "load",
    "store",
    "store_acc",
    "move",
    "binary",
    "scalar",
    "unary",
    "fill",
    "convert",
    "row_max",
    "sort32",
    "merge_blocks",
    "merge",
    "gather",
    "extract",
    "matmul",
    "set_flag",
    "wait_flag",
    "pipe_barrier",
    "dsb",
    "dcci",
    "sync_all",
    "notify",
    "wait",
    "test",
    "cross_set",
    "cross_wait",
];

/// Sizes of loads and stores that the compiler tells apart.
const SIZES: [&str; 5] = ["1", "2", "4", "8", "16"];

/// Objects of some sources.
pub(crate) fn objects(files: &[PathBuf]) -> Result<Vec<PathBuf>, cc::Error> {
    let mut build = host_compiler(files);
    instrument(&mut build);
    build.out_dir(out_dir().join("checked"));
    build.try_compile_intermediates()
}

fn instrument(build: &mut cc::Build) {
    build
        .opt_level(1)
        .debug(true)
        .define(DEFINE, None)
        .flag("-fsanitize=thread")
        // The scalar unit's loads and stores are those of the source.
        .flag("-fno-omit-frame-pointer")
        // Symbols of that kind can't be made invisible.
        .flag_if_supported("-fno-gnu-unique");
}

/// Builds kernels for checked mode into a shared library, outside of a build script: what a tool does that changes
/// their source. `folder` gets the library and everything on the way to it.
///
/// # Errors
/// [`BuildError`] with the words of the compiler or linker.
pub fn checked_library(
    files: &[PathBuf],
    includes: &[PathBuf],
    folder: &Path,
) -> Result<PathBuf, BuildError> {
    let failed = |source| BuildError::Compile {
        crate_name: folder.display().to_string(),
        source,
    };
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = kernel_compiler(files, includes);
    build
        .cargo_metadata(false)
        // A change may leave a variable unused.
        .warnings(false)
        .extra_warnings(false)
        .warnings_into_errors(false)
        .target(&target)
        .host(&target)
        .pic(true)
        .out_dir(folder);
    instrument(&mut build);
    let objects = build.try_compile_intermediates().map_err(failed)?;
    let secluded = seclude_in(folder, &objects)?;
    let library = folder.join("kernels.so");
    let compiler = build.try_get_compiler().map_err(failed)?;
    let mut link = Command::new(compiler.path());
    link.arg("-shared").arg("-o").arg(&library);
    run("the linker", link.arg(&secluded))?;
    Ok(library)
}

/// One object of them, of which only the entry points can be seen.
pub(crate) fn seclude(objects: &[PathBuf]) -> Result<PathBuf, BuildError> {
    seclude_in(&out_dir().join("checked"), objects)
}

fn seclude_in(folder: &Path, objects: &[PathBuf]) -> Result<PathBuf, BuildError> {
    let (joined, secluded) = (folder.join("joined.o"), folder.join("secluded.o"));
    let names = folder.join("renamed");
    std::fs::write(&names, renamed()).map_err(|source| BuildError::Io {
        path: names.clone(),
        source,
    })?;
    let mut ld = Command::new("ld");
    ld.arg("-r")
        .arg("--force-group-allocation")
        .arg("-o")
        .arg(&joined);
    run("ld", ld.args(objects))?;
    let mut objcopy = Command::new("objcopy");
    objcopy
        .arg("--redefine-syms")
        .arg(&names)
        .args(["--wildcard", "--keep-global-symbol=checked_*"]);
    run("objcopy", objcopy.arg(&joined).arg(&secluded))?;
    remove(&joined);
    Ok(secluded)
}

/// Old and new names, a pair on each line.
fn renamed() -> String {
    let mut text = String::new();
    let mut pair = |old: String, new: String| {
        // Writing to a string never fails.
        let _ = writeln!(text, "{old} {new}");
    };
    for name in INSTRUCTIONS {
        pair(
            format!("megamoe_dev_{name}"),
            format!("megamoe_chk_dev_{name}"),
        );
    }
    for size in SIZES {
        for access in ["read", "write", "unaligned_read", "unaligned_write"] {
            pair(
                format!("__tsan_{access}{size}"),
                format!("megamoe_chk_{access}{size}"),
            );
        }
    }
    for name in [
        "read_range",
        "write_range",
        "func_entry",
        "func_exit",
        "init",
    ] {
        pair(format!("__tsan_{name}"), format!("megamoe_chk_{name}"));
    }
    text
}

fn run(tool: &'static str, command: &mut Command) -> Result<(), BuildError> {
    let output = command.output().map_err(|source| BuildError::Io {
        path: tool.into(),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(BuildError::Tool { tool, words })
}

/// An intermediate file; it is only in the way.
fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}
