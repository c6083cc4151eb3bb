//! Compiles kernels, and tells dependents where headers are.

use std::path::{Path, PathBuf};

use crate::bisheng::NoBisheng;
use crate::checked;
use crate::header::{HeaderError, cpp_header};

/// A build that can't go on.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no C++ compiler.
    #[error(
        "no C++ compiler: {reason}. Install one (on Debian: apt-get install g++), or name it in CXX"
    )]
    NoCompiler {
        /// What was tried.
        reason: String,
    },
    /// Device code does not compile.
    #[error("{crate_name}: {source}")]
    Compile {
        /// Whose code.
        crate_name: String,
        /// The compiler's words.
        source: cc::Error,
    },
    /// A declaration has no C++ counterpart.
    #[error("{}: {source}", path.display())]
    Header {
        /// The Rust source.
        path: PathBuf,
        /// What is wrong.
        source: HeaderError,
    },
    /// Kernels for the NPU are asked for, but can't be built.
    #[error("the feature `ascend` builds kernels for the NPU, but {0}")]
    NoBisheng(#[from] NoBisheng),
    /// CANN's compiler does not take a kernel.
    #[error("{words}\nthis was: {command}")]
    Bisheng {
        /// The command.
        command: String,
        /// The compiler's words.
        words: String,
    },
    /// A tool of binutils fails.
    #[error("{tool} failed: {words}")]
    Tool {
        /// The tool.
        tool: &'static str,
        /// Its words.
        words: String,
    },
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl BuildError {
    /// Ends the build script with a message that cargo shows.
    pub fn exit(&self) -> ! {
        let text = self.to_string();
        for line in text.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1)
    }
}

pub(crate) fn manifest_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| ".".into(), PathBuf::from)
}

pub(crate) fn out_dir() -> PathBuf {
    std::env::var_os("OUT_DIR").map_or_else(|| ".".into(), PathBuf::from)
}

fn generated_dir() -> PathBuf {
    out_dir().join("include")
}

/// Writes a file of the build; its path.
pub(crate) fn write_generated(name: &str, text: &str) -> Result<PathBuf, BuildError> {
    let path = out_dir().join(name);
    let io = |source| BuildError::Io {
        path: path.clone(),
        source,
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(io)?;
    }
    std::fs::write(&path, text).map_err(io)?;
    Ok(path)
}

/// Headers that a crate gives to its own device code and to that of its dependents.
#[derive(Debug, Default)]
pub struct Headers {
    generated: Vec<(String, Vec<PathBuf>)>,
}

impl Headers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the header `name` (as it is included) from Rust sources of this crate.
    #[must_use]
    pub fn generate(mut self, name: &str, sources: &[&str]) -> Self {
        let sources = sources.iter().map(|source| manifest_dir().join(source));
        self.generated.push((name.to_owned(), sources.collect()));
        self
    }

    /// Writes the headers and exports the folders to dependents: the generated ones, and each of
    /// `folders` of this crate.
    ///
    /// # Errors
    /// [`BuildError`] names the file.
    pub fn export(&self, folders: &[&str]) -> Result<(), BuildError> {
        for (name, sources) in &self.generated {
            write_header(name, sources)?;
        }
        let mut all = vec![generated_dir()];
        for folder in folders {
            let path = manifest_dir().join(folder);
            println!("cargo::rerun-if-changed={}", path.display());
            all.push(path);
        }
        let all = std::env::join_paths(all).unwrap_or_default();
        println!("cargo::metadata=include={}", all.to_string_lossy());
        Ok(())
    }
}

fn write_header(name: &str, sources: &[PathBuf]) -> Result<(), BuildError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| BuildError::Io { path, source }
    };
    let mut texts = Vec::new();
    for source in sources {
        println!("cargo::rerun-if-changed={}", source.display());
        texts.push(std::fs::read_to_string(source).map_err(io(source))?);
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let text = cpp_header(&texts).map_err(|source| BuildError::Header {
        path: sources.last().cloned().unwrap_or_default(),
        source,
    })?;
    write_generated(&format!("include/{name}"), &text)?;
    Ok(())
}

/// The device code of a crate, compiled for the host.
#[derive(Debug)]
pub struct Kernels {
    files: Vec<PathBuf>,
}

impl Kernels {
    /// Every `.cpp` file of a folder of this crate.
    ///
    /// # Errors
    /// [`BuildError::Io`] when the folder can't be read.
    pub fn in_folder(folder: &str) -> Result<Self, BuildError> {
        let folder = manifest_dir().join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        Ok(Self {
            files: cpp_files(&folder)?,
        })
    }

    /// These files too.
    pub(crate) fn with(mut self, files: Vec<PathBuf>) -> Self {
        self.files.extend(files);
        self
    }

    /// Compiles and links them. Headers are looked for in this crate's `kernel/`, in what it generated, and
    /// in what its dependencies export.
    ///
    /// # Errors
    /// [`BuildError`] with the compiler's words, or the package to install where there is none.
    pub fn compile(&self) -> Result<(), BuildError> {
        let crate_name = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        println!("cargo::rerun-if-env-changed=CXX");
        let mut build = host_compiler(&self.files);
        build.opt_level(3);
        let compiler = build
            .try_get_compiler()
            .map_err(|error| BuildError::NoCompiler {
                reason: error.to_string(),
            })?;
        let probe = compiler.to_command().arg("--version").output();
        if let Err(error) = probe {
            let path = compiler.path().display();
            let reason = format!("{path} can't be run ({error})");
            return Err(BuildError::NoCompiler { reason });
        }
        let library = crate_name.replace('-', "_");
        let failed = |source| BuildError::Compile {
            crate_name: crate_name.clone(),
            source,
        };
        build
            .try_compile(&format!("{library}_kernels"))
            .map_err(failed)?;
        let objects = checked::objects(&self.files).map_err(failed)?;
        let object = checked::seclude(&objects)?;
        cc::Build::new()
            .object(object)
            .try_compile(&format!("{library}_checked"))
            .map_err(failed)
    }
}

/// The host's C++ compiler, for kernels.
pub(crate) fn host_compiler(files: &[PathBuf]) -> cc::Build {
    let mut includes = crate_folders();
    includes.extend(exported_folders(|_| true));
    kernel_compiler(files, &includes)
}

/// The same with other include folders.
pub(crate) fn kernel_compiler(files: &[PathBuf], includes: &[PathBuf]) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        // Two roundings must stay two: the NPU's vector unit does not fuse them either.
        .flag("-ffp-contract=off")
        // An on-chip pointer is retyped freely, as the NPU's compiler allows.
        .flag("-fno-strict-aliasing")
        .flag_if_supported("-fno-plt")
        .includes(includes)
        .files(files);
    build
}

/// The `.cpp` files of a folder, in order of their names.
pub(crate) fn cpp_files(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let entries = std::fs::read_dir(folder).map_err(|source| BuildError::Io {
        path: folder.to_owned(),
        source,
    })?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    files.sort();
    Ok(files)
}

/// Folders of this crate's own headers.
pub(crate) fn crate_folders() -> Vec<PathBuf> {
    vec![manifest_dir().join("kernel"), generated_dir()]
}

/// Folders that direct dependencies with device code exported, of those whose variable is chosen.
fn exported_folders(is_chosen: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let exported = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_string_lossy();
        name.starts_with("DEP_") && name.ends_with("_INCLUDE") && is_chosen(&name)
    });
    let mut folders: Vec<PathBuf> = exported
        .flat_map(|(_, value)| std::env::split_paths(&value).collect::<Vec<_>>())
        .collect();
    folders.sort();
    folders
}

/// Folders of headers that this crate's dependencies export, for a build script that hands them on.
#[must_use]
pub fn include_folders() -> Vec<PathBuf> {
    exported_folders(|_| true)
}

/// The same without the headers that stand in for the NPU's own on the virtual device.
pub(crate) fn exported_for_npu() -> Vec<PathBuf> {
    exported_folders(|variable| variable != "DEP_MEGAMOE_DEVICE_INCLUDE")
}

/// Compiles C++ of this crate that is no kernel, against headers in `include`.
///
/// # Errors
/// [`BuildError::Compile`] with the compiler's words.
pub fn compile_support(files: &[&str], include: &str) -> Result<(), BuildError> {
    let files: Vec<PathBuf> = files.iter().map(|file| manifest_dir().join(file)).collect();
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    let crate_name = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let library = format!("{}_support", crate_name.replace('-', "_"));
    let mut build = host_compiler(&files);
    build.include(manifest_dir().join(include)).opt_level(2);
    build
        .try_compile(&library)
        .map_err(|source| BuildError::Compile { crate_name, source })
}

/// All that the build script of a stage does: the tiling's header `{name}/tiling.h` from `src/tiling.rs`,
/// its `kernel/` compiled and exported. Ends the build with a message when that fails.
pub fn stage(name: &str) {
    let build = || {
        Headers::new()
            .generate(&format!("{name}/tiling.h"), &["src/tiling.rs"])
            .export(&["kernel"])?;
        Kernels::in_folder("kernel")?.compile()
    };
    if let Err(error) = build() {
        error.exit();
    }
}
